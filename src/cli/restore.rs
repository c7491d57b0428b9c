//! `iotrail restore`: restores host settings that a killed run left changed.
//!
//! Exit status: 0 if all settings are restored; 1 if another program has since changed one, which is then left
//! unmodified; 3 if one cannot be restored.

use serde::Serialize;

use iotrail_base::error::Result;
use iotrail_report::terminal::{self, Screen, Style};
use iotrail_settings::{Change, Item, Restored, Undone};

#[derive(Debug, Clone, clap::Args)]
pub struct RestoreArgs {
    /// Also restore settings that another program has changed since
    #[arg(long)]
    pub force: bool,

    /// Print JSON on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Serialize)]
struct Printed<'a> {
    schema: &'static str,
    journal: &'a std::path::Path,
    /// The process that was killed; null: nothing was left.
    tgid: Option<u32>,
    restarted: bool,
    settings: &'a [Item],
}

pub fn run(args: &RestoreArgs) -> Result<u8> {
    let restored = iotrail_settings::restore(args.force)?;
    if args.json {
        terminal::print_json(&Printed {
            schema: "iotrail.restore/1",
            journal: &restored.journal,
            tgid: restored.tgid,
            restarted: restored.restarted,
            settings: &restored.items,
        })?;
    } else {
        terminal::show(&text(&restored))?;
    }
    let failed = |i: &Item| matches!(i.undone, Some(Undone::Failed { .. }));
    Ok(match &restored.items {
        items if items.iter().any(failed) => 3,
        items if items.iter().any(|i| !i.is_done()) => 1,
        _ => 0,
    })
}

fn text(restored: &Restored) -> Screen {
    let mut out = Screen::new(Style::of_stdout());
    let Some(tgid) = restored.tgid else {
        out.line("nothing to restore: no run has left settings changed");
        return out;
    };
    if restored.restarted {
        out.line(&format!("nothing to restore: the reboot reset the changes of process {tgid}"));
        return out;
    }
    // Dependent values that are already restored are not reported.
    let told = restored
        .items
        .iter()
        .filter(|i| !matches!((&i.change, &i.undone), (Change::Along { .. }, Some(Undone::AsBefore { .. }) | None)));
    told.for_each(|i| out.line(&i.text()));
    let left = restored.items.iter().filter(|i| !i.is_done()).count();
    match left {
        0 => out.line(&format!("all changes of process {tgid} are restored")),
        n => out.line(&format!(
            "{n} of {} changes are not restored yet; {} records them, and removing it keeps the current settings",
            restored.items.len(),
            restored.journal.display()
        )),
    }
    out
}
