//! Shows the nodes' progress: a bar per node if standard error is a terminal, and a line per event.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::node::{Node, NodePlace};
use iotrail_base::plain::{Stream, for_locale};
use iotrail_report::terminal::{self, sanitise, say};

/// If there are more nodes, a single bar shows their sum.
const MOST: usize = 20;

pub struct Shown {
    all: MultiProgress,
    bars: Vec<ProgressBar>,
}

impl Shown {
    pub fn new(nodes: &[Node]) -> Self {
        let all = MultiProgress::with_draw_target(terminal::progress_target());
        let template = for_locale("{prefix:12} {bar:20} {wide_msg}", Stream::Stderr);
        let style = ProgressStyle::with_template(&template).ok();
        let bar = |name: &str| {
            let bar = all.add(ProgressBar::new(0));
            if let Some(style) = &style {
                bar.set_style(style.clone().progress_chars(&for_locale("██░", Stream::Stderr)));
            }
            bar.set_prefix(sanitise(name));
            bar
        };
        let bars =
            if nodes.len() > MOST { vec![bar("all nodes")] } else { nodes.iter().map(|n| bar(&n.called)).collect() };
        Self { all, bars }
    }

    pub fn line(&self, text: &str) {
        self.all.suspend(|| say(text));
    }

    pub fn draw(&self, nodes: &[Node]) {
        if let [bar] = &self.bars[..] {
            let of = |at: fn(&NodePlace) -> bool| nodes.iter().filter(|n| at(&n.at)).count();
            let (running, over) = (of(|at| *at == NodePlace::Running), of(|at| matches!(at, NodePlace::Over(_))));
            set(bar, nodes, &format!("{running} running, {over} of {} finished", nodes.len()));
            return;
        }
        for (bar, node) in self.bars.iter().zip(nodes) {
            set(bar, std::slice::from_ref(node), words(node.at));
        }
    }

    pub fn end(&self) {
        self.bars.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn set(bar: &ProgressBar, nodes: &[Node], message: &str) {
    let (done, planned) = nodes.iter().map(Node::progress).fold((0, 0), |(d, p), n| (d + n.done, p + n.planned));
    // Until a node has reported its plan, nothing counts as done.
    bar.set_length(planned.max(1));
    bar.set_position(done);
    let count = if planned == 0 {
        String::new()
    } else {
        for_locale(&format!("{done}/{planned} · "), Stream::Stderr).into_owned()
    };
    bar.set_message(count + message);
    bar.tick();
}

fn words(at: NodePlace) -> &'static str {
    match at {
        NodePlace::Waiting => "waits in the queue",
        NodePlace::Running => "runs",
        NodePlace::Requeued => "waits in the queue again",
        NodePlace::Ended(_) => "brings its results",
        NodePlace::Over(_) => "over",
    }
}
