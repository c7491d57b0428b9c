//! An open page, and the checks that apply to all pages.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::chromium::Chromium;
use crate::skip;

pub const BINARY: &str = env!("CARGO_BIN_EXE_iotrail");

/// The path where `make test` installs axe-core.
fn axe() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("axe-core/package/axe.min.js")
}

/// Runs `iotrail` with these arguments in a directory.
#[track_caller]
pub fn iotrail(folder: &Path, args: &[&str]) -> (i32, String) {
    let out = Command::new(BINARY).args(args).current_dir(folder).output().expect("the built binary runs");
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&out.stderr).into_owned())
}

pub struct Page {
    pub browser: Chromium,
    /// The JSON data in the page's script.
    pub data: Value,
}

/// For every chart: the rows of its marks, marks without position or size, and its lines.
const MARKS: &str = "[...document.querySelectorAll('#ID .plot')].map((p) => {
    const marks = [...p.querySelectorAll('.point, .bar')];
    const size = (m) => { const b = m.getBoundingClientRect(); return b.width > 0 && b.height > 0; };
    return { rows: marks.map((m) => Number(m.dataset.row)).sort((a, b) => a - b), unseen: marks.filter((m) => !size(m)).length,
        lines: [...p.querySelectorAll('.line')].filter(size).length, ticks: p.querySelectorAll('.tick:not(.spare)').length };
})";

/// The tooltip of a mark.
const SHOWN: &str = "!document.getElementById('tip').hidden && document.getElementById('tip').textContent";

impl Page {
    /// `None` if no browser is installed and the test is skipped.
    pub fn open(test: &str, page: &Path) -> Option<Self> {
        let Some(mut browser) = Chromium::open() else {
            skip(test, "there is no chromium on PATH: apt-get install chromium");
            return None;
        };
        browser.go(page);
        // Parsed here, because JavaScript would turn integers into floats.
        let data = browser.evaluate("document.getElementById('data').textContent");
        let data = serde_json::from_str(data.as_str().expect("text")).expect("JSON");
        let mut page = Self { browser, data };
        // Opens folded parts, so that they are checked too.
        page.browser.evaluate("document.querySelectorAll('.fold').forEach((d) => { d.open = true; })");
        Some(page)
    }

    /// On a wide screen and on a phone, the answer, the differences and the delivery paths come first.
    pub fn answers_first(&mut self) {
        for (width, height) in [(1280, 900), (390, 844)] {
            let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
            self.browser.call("Emulation.setDeviceMetricsOverride", size);
            self.browser.evaluate("scrollTo(0, 0)");
            let below = self.browser.evaluate(
                "[...document.querySelectorAll('h1, #forest .plot, #delivered .plot')].filter((e) => e.getBoundingClientRect().bottom > innerHeight).map((e) => e.outerHTML.slice(0, 200))",
            );
            assert_eq!(below, json!([]), "{width} x {height}");
            let is_within = self.browser.evaluate("document.documentElement.scrollWidth <= innerWidth");
            assert_eq!(is_within, json!(true), "{width} x {height}: wider than the screen");
        }
        self.browser.call("Emulation.clearDeviceMetricsOverride", json!({}));
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

    /// Every chart has a mark per declared row, and readable axes.
    pub fn has_its_marks(&mut self) {
        for figure in self.figures().clone() {
            let id = figure["id"].as_str().expect("a name").to_owned();
            let drawn = self.browser.evaluate(&MARKS.replace("ID", &id));
            let panels = figure["panels"].as_array().expect("panels");
            assert_eq!(drawn.as_array().map(Vec::len), Some(panels.len()), "{id}");
            for (panel, drawn) in panels.iter().zip(drawn.as_array().expect("a list")) {
                let series = panel["series"].as_array().expect("series");
                let rows = series.iter().flat_map(|s| s["rows"].as_array().expect("rows"));
                let mut rows: Vec<u64> = rows.map(|r| r.as_u64().expect("a row")).collect();
                rows.sort_unstable();
                assert!(!rows.is_empty(), "{id}: an empty chart");
                match panel["kind"].as_str() {
                    Some("curves") => assert_eq!(drawn["lines"], json!(series.len()), "{id}, {}", panel["title"]),
                    _ => assert_eq!(drawn["rows"], json!(rows), "{id}, {}", panel["title"]),
                }
                assert_eq!(drawn["unseen"], json!(0), "{id}, {}", panel["title"]);
                assert!(drawn["ticks"].as_u64().is_some_and(|n| n >= 2), "{id}, {}", panel["title"]);
            }
        }
    }

    /// No console errors and no network requests.
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

    /// The tooltip of a mark under the mouse pointer.
    pub fn hover(&mut self, figure: &str) -> String {
        let mark = format!("document.querySelector('#{figure} .point')");
        self.browser.evaluate(&format!("{mark}.scrollIntoView({{behavior: 'instant', block: 'center'}})"));
        let at = self.browser.evaluate(&format!(
            "(() => {{ const b = {mark}.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; }})()"
        ));
        let (x, y) = (at[0].as_f64().expect("a place"), at[1].as_f64().expect("a place"));
        // Scrolling hides tooltips, so it has to end first.
        self.browser.evaluate("new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r())))");
        self.browser.point_at(x - 2.0, y);
        self.browser.point_at(x, y);
        self.browser.wait_for(SHOWN).as_str().unwrap_or_default().to_owned()
    }

    /// The tooltip of the first mark after an arrow key in a chart with the focus.
    pub fn step_through(&mut self, figure: &str) -> String {
        self.browser.evaluate(&format!(
            "document.getElementById('tip').hidden = true; document.querySelector('#{figure} .plot').focus()"
        ));
        // Scrolling in progress hides tooltips.
        for _ in 0..1000 {
            self.browser.key("Home");
            if let Some(text) = self.browser.evaluate(SHOWN).as_str() {
                return text.to_owned();
            }
        }
        panic!("the Home key shows nothing");
    }

    /// The lines of a figure's CSV as saved by the browser.
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

    /// The Tab key alone reaches all controls.
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

    /// axe-core finds no violations in these themes. It treats a chart as a single image with an alternative text.
    pub fn is_accessible(&mut self, test: &str, themes: &[&str]) {
        let Ok(axe) = std::fs::read_to_string(axe()) else {
            return skip(test, "axe-core does not exist: `make test` fetches it, with npm");
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
