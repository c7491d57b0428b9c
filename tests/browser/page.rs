//! A page that is open in the browser, and what is asked of every page.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::skip;

pub const BINARY: &str = env!("CARGO_BIN_EXE_iotrail");

/// Where `make test` puts it.
fn axe() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe-core/package/axe.min.js")
}

/// `iotrail` with these arguments, in a folder.
#[track_caller]
pub fn iotrail(folder: &Path, args: &[&str]) -> (i32, String) {
    let out = Command::new(BINARY).args(args).current_dir(folder).output().expect("the built binary runs");
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stderr).into_owned())
}

pub struct Page {
    pub browser: Chromium,
    /// What its script reads.
    pub data: Value,
}

/// Of every chart that is there: how many marks it has, by what Plotly draws for them.
const MARKS: &str = "[...document.querySelectorAll('#ID .plot')].map((p) => ({
    points: p.querySelectorAll('.scatterlayer .point').length, bars: p.querySelectorAll('.barlayer .point').length,
    lines: p.querySelectorAll('.scatterlayer .js-line').length }))";

impl Page {
    /// `None`: there is no browser, which is a skip.
    pub fn open(test: &str, page: &Path) -> Option<Self> {
        let Some(mut browser) = Chromium::open() else {
            skip(test, "there is no chromium on PATH: apt-get install chromium");
            return None;
        };
        browser.go(page);
        // Read here, where a number keeps its kind.
        let data = browser.evaluate("document.getElementById('data').textContent");
        let data = serde_json::from_str(data.as_str().expect("text")).expect("JSON");
        let mut page = Self { browser, data };
        page.draw("document");
        Some(page)
    }

    /// Charts are drawn when they come near the window: each is brought there.
    fn draw(&mut self, within: &str) {
        self.browser.evaluate(&format!(
            "(async () => {{ for (const p of {within}.querySelectorAll('.plot')) {{
                p.scrollIntoView({{behavior: 'instant'}});
                while (!p.querySelector('.main-svg')) await new Promise((r) => requestAnimationFrame(r));
            }} scrollTo(0, 0); }})()"
        ));
    }

    pub fn figures(&self) -> &Vec<Value> {
        self.data["figures"].as_array().expect("figures")
    }

    pub fn figure(&self, id: &str) -> &Value {
        self.figures().iter().find(|f| f["id"] == id).unwrap_or_else(|| panic!("no figure {id}"))
    }

    /// A column of a figure's rows.
    pub fn column(&self, id: &str, name: &str) -> Vec<Value> {
        let figure = self.figure(id);
        let columns = figure["columns"].as_array().expect("columns");
        let i = columns.iter().position(|c| c["name"] == name).unwrap_or_else(|| panic!("{id} has no column {name}"));
        figure["rows"].as_array().expect("rows").iter().map(|row| row[i].clone()).collect()
    }

    /// Every chart of every page has a mark for each row that it says it draws.
    pub fn has_its_marks(&mut self) {
        for figure in self.figures().clone() {
            let id = figure["id"].as_str().expect("a name").to_owned();
            for (i, page) in figure["pages"].as_array().expect("pages").iter().enumerate() {
                if i > 0 {
                    self.browser.evaluate(&format!(
                        "{{ const s = document.querySelector('#{id} select'); s.value = '{i}'; s.dispatchEvent(new Event('change')); }}"
                    ));
                    self.draw(&format!("document.getElementById('{id}')"));
                }
                let drawn = self.browser.evaluate(&MARKS.replace("ID", &id));
                let panels = page["panels"].as_array().expect("panels");
                assert_eq!(drawn.as_array().map(Vec::len), Some(panels.len()), "{id}, page {i}");
                for (panel, drawn) in panels.iter().zip(drawn.as_array().expect("a list")) {
                    let series = panel["series"].as_array().expect("series");
                    let rows: usize = series.iter().map(|s| s["rows"].as_array().map_or(0, Vec::len)).sum();
                    let (what, wanted) = match panel["kind"].as_str() {
                        Some("bars") => ("bars", rows),
                        Some("curves") => ("lines", series.len()),
                        _ => ("points", rows),
                    };
                    assert_eq!(drawn[what], json!(wanted), "{id}, page {i}, {}", panel["title"]);
                    assert!(wanted > 0, "{id}: an empty chart");
                }
            }
        }
    }

    /// No error on the console, and nothing asked of any network.
    pub fn was_quiet(&self) {
        for event in &self.browser.events {
            let (method, p) = (event["method"].as_str().unwrap_or_default(), &event["params"]);
            let is_error = match method {
                "Runtime.exceptionThrown" => true,
                "Runtime.consoleAPICalled" => matches!(p["type"].as_str(), Some("error" | "warning")),
                "Log.entryAdded" => matches!(p["entry"]["level"].as_str(), Some("error" | "warning")),
                _ => false,
            };
            assert!(!is_error, "{event}");
            if method == "Network.requestWillBeSent" {
                let url = p["request"]["url"].as_str().unwrap_or_default();
                let scheme = url.split(':').next().unwrap_or_default();
                assert!(matches!(scheme, "file" | "data" | "blob"), "it asked for {url}");
            }
        }
    }

    /// The text that a mark shows when it is pointed at.
    pub fn hover(&mut self, figure: &str) -> String {
        let mark = format!("document.querySelector('#{figure} .point')");
        self.browser.evaluate(&format!("{mark}.scrollIntoView({{behavior: 'instant', block: 'center'}})"));
        let at = self.browser.evaluate(&format!(
            "(() => {{ const b = {mark}.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        ));
        let (x, y) = (at[0].as_f64().expect("a place"), at[1].as_f64().expect("a place"));
        // The scrolling has to be over, as it puts away what is shown; and Plotly looks at what moves.
        self.browser.evaluate("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r())))");
        self.browser.point_at(x - 2.0, y);
        self.browser.point_at(x, y);
        let shown = "!document.getElementById('tip').hidden && document.getElementById('tip').textContent";
        self.browser.wait_for(shown).as_str().unwrap_or_default().to_owned()
    }

    /// The lines of a figure's CSV, as the browser saves it.
    pub fn csv(&mut self, figure: &str, folder: &Path) -> Vec<String> {
        let params = json!({"behavior": "allow", "downloadPath": folder, "eventsEnabled": false});
        self.browser.call("Page.setDownloadBehavior", params);
        self.browser.evaluate(&format!("document.querySelector('#{figure} .csv').click()"));
        let name = format!("{}-{figure}.csv", self.data["name"].as_str().expect("a name"));
        let began = std::time::Instant::now();
        loop {
            if let Some(text) = std::fs::read_to_string(folder.join(&name)).ok().filter(|t| t.ends_with('\n')) {
                return text.lines().map(str::to_owned).collect();
            }
            assert!(began.elapsed().as_secs() < 60, "{name} was not saved");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Whatever can be used can be reached with the Tab key alone.
    pub fn is_reached_by_tab(&mut self) {
        const ALL: &str = "[...document.querySelectorAll('a[href], button, select, summary, [tabindex=\"0\"]')].filter((e) => e.checkVisibility())";
        let all = self.browser.evaluate(&format!("{ALL}.forEach((e, i) => e.dataset.place = i), {ALL}.length"));
        let all = all.as_u64().expect("a number");
        self.browser.evaluate("getSelection().removeAllRanges(), document.activeElement.blur(), scrollTo(0, 0)");
        let mut reached = std::collections::BTreeSet::new();
        for _ in 0..=all {
            self.browser.key("Tab");
            reached.extend(
                self.browser.evaluate("document.activeElement.dataset.place ?? null").as_str().map(str::to_owned),
            );
        }
        assert_eq!(reached.len() as u64, all, "of these, some were not reached: {reached:?}");
    }

    /// axe-core finds nothing wrong, in these themes. What is inside a chart is one picture to it, which has words of its own.
    pub fn is_accessible(&mut self, test: &str, themes: &[&str]) {
        let Ok(axe) = std::fs::read_to_string(axe()) else {
            return skip(test, "axe-core is not there: `make test` fetches it, with npm");
        };
        self.browser.evaluate(&format!("{{ {axe}\n }}; 0"));
        for theme in themes {
            let features = json!({"features": [{"name": "prefers-color-scheme", "value": theme}]});
            self.browser.call("Emulation.setEmulatedMedia", features);
            self.browser.wait_for(&format!("document.documentElement.dataset.theme === '{theme}'"));
            let found = self.browser.evaluate(
                "axe.run({exclude: [['.plot > *']]}, {resultTypes: ['violations']}).then((r) => r.violations.map((v) => `${v.id}: ${v.nodes[0].html} ${v.nodes[0].failureSummary}`))",
            );
            assert_eq!(found, json!([]), "{theme}");
        }
    }
}
