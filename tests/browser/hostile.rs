//! Injection through untrusted text: titles, parameters, host names, files, interrupts, warnings.

use serde_json::{Value, json};

use crate::made;
use crate::page::{Page, iotrail};

/// Attempts to break out of HTML, script JSON, chart labels, attributes and terminals.
const EVIL: &str = "</script><script>hacked=1</script><img src=x onerror=hacked=1>\"' onfocus=hacked=1 <!-- <b>x</b><a href='javascript:hacked=1'>l</a> {{7*7}} $x^2$ %{x} &lt; \u{2028}\u{202e}\u{1b}[31m";

/// Appends [`EVIL`] to every untrusted string in a record.
fn spoil(value: &mut Value, key: &str) {
    const OF_OURS: [&str; 8] = ["schema", "table", "vehicle", "place", "mode", "is", "metric", "axes"];
    match value {
        Value::String(s) if !OF_OURS.contains(&key) => *s = format!("{s}{EVIL}"),
        Value::Array(all) if !OF_OURS.contains(&key) => all.iter_mut().for_each(|v| spoil(v, key)),
        Value::Object(all) => all.iter_mut().for_each(|(name, v)| spoil(v, name)),
        _ => {}
    }
}

pub fn stays_text() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = made::store(&folder.path().join("s.db"), &made::built_in("irq-placement"), 2);
    let store = iotrail_store::Store::open(&folder.path().join("s.db")).expect("readable").expect("there");
    let mut record = serde_json::to_value(store.load(run).expect("readable").expect("there")).expect("JSON");
    let warning = json!({"code": "x", "text": "w", "remedy": "r"});
    record["cells"][0]["measurements"][0]["warnings"] = json!([warning]);
    spoil(&mut record, "");
    // The axis name contains the same text.
    let named = format!("axis{EVIL}");
    record["axes"].as_array_mut().expect("a list").insert(0, json!(named));
    for (i, cell) in record["cells"].as_array_mut().expect("a list").iter_mut().enumerate() {
        cell["params"][&named] = json!(format!("{}{EVIL}", i % 2));
    }
    let name = "<img src=x onerror=hacked=1>.json";
    std::fs::write(folder.path().join(name), record.to_string()).expect("a file of our own");
    let (status, said) = iotrail(folder.path(), &["report", name, "-o", "page.html"]);
    assert_eq!(status, 0, "{said}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
    let Some(mut page) = Page::open("hostile text", &folder.path().join("page.html")) else { return };
    page.has_its_marks();
    // Makes all labels visible: hover text, tables, selection.
    let shown = page.hover("course");
    assert!(shown.contains("<script>"), "as text: {shown:?}");
    page.browser.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })");
    page.browser.wait_for("document.querySelector('#course table td') !== null");
    let inside = page.browser.evaluate(
        "({hacked: typeof hacked, images: document.querySelectorAll('img').length, scripts: document.querySelectorAll('script').length,
           links: [...document.querySelectorAll('a')].filter((a) => /^javascript/i.test(a.getAttribute('href') ?? a.getAttribute('xlink:href') ?? '')).length,
           bold: [...document.querySelectorAll('.plot b, .panel h3 b, td b')].length, handlers: document.querySelectorAll('[onfocus], [onerror]').length})",
    );
    assert_eq!(inside, json!({"hacked": "undefined", "images": 0, "scripts": 2, "links": 0, "bold": 0, "handlers": 0}));
    let title = page.browser.evaluate("document.querySelector('.state').textContent");
    assert!(title.as_str().is_some_and(|t| t.contains("</script><script>hacked=1</script>")), "{title}");
    page.was_quiet();
}
