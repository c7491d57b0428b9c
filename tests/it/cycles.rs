//! Module dependencies within a crate are acyclic, directly and indirectly. Between crates, Cargo enforces this.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use quote::ToTokens as _;
use syn::Item;

use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("cycles::modules_of_a_crate_have_no_dependency_cycle", no_circle_in_any_crate),
    ("cycles::a_dependency_cycle_is_detected", a_circle_is_found),
];

/// A module's path from the crate root.
type Module = Vec<String>;

fn no_circle_in_any_crate() -> End {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let crates = std::fs::read_dir(root.join("crates")).expect("a workspace").map(|c| c.expect("a crate").path());
    let sources: Vec<PathBuf> = crates.chain([root.to_owned()]).map(|c| c.join("src")).collect();
    assert!(sources.len() > 10, "{sources:?}");
    let circles: Vec<String> = sources.iter().flat_map(|source| circles(source)).collect();
    assert!(circles.is_empty(), "modules that use each other:\n{}", circles.join("\n"));
    End::Passed
}

fn a_circle_is_found() -> End {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("room");
    write("lib.rs", "mod a;\nmod b;\nmod c;\n");
    write("a.rs", "use super::b::{self, Of};\n");
    write("b.rs", "use crate::{c::g, h};\n");
    write("c.rs", "// crate::a is not used.\n#[cfg(test)]\nmod tests {\n    use crate::a;\n}\n");
    assert_eq!(circles(dir.path()), [""; 0]);
    for uses in ["use crate::a::X;\n", "#[cfg(test)]\nmod tests;\nfn f() { super::a::g() }\n"] {
        write("c.rs", uses);
        assert_eq!(circles(dir.path()).len(), 1, "{uses}");
    }
    End::Passed
}

/// One line per cycle in this source tree, with its modules; empty without cycles.
fn circles(source: &Path) -> Vec<String> {
    let modules = modules(source);
    let uses: BTreeMap<&Module, BTreeSet<Module>> =
        modules.iter().map(|(module, text)| (module, used(module, text, &modules))).collect();
    let mut found = BTreeSet::new();
    for start in modules.keys() {
        // The modules that it uses directly or indirectly.
        let mut seen = BTreeSet::new();
        let mut open: Vec<&Module> = vec![start];
        while let Some(module) = open.pop() {
            open.extend(uses[module].iter().filter(|used| seen.insert((*used).clone())));
        }
        if seen.contains(start) {
            found.insert(start.join("::"));
        }
    }
    let line = |names: Vec<String>| format!("{}: {}", source.display(), names.join(", "));
    (!found.is_empty()).then(|| line(found.into_iter().collect())).into_iter().collect()
}

/// Each module's text without tests, which may use any module.
fn modules(source: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    let mut open = vec![(source.to_owned(), Module::new())];
    while let Some((folder, at)) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").map(|e| e.expect("an entry").path()) {
            let name = entry.file_stem().expect("a name").to_string_lossy().into_owned();
            let inside = |name: &str| at.iter().cloned().chain([name.to_owned()]).collect::<Module>();
            if name.contains("tests") || name == "main" {
                continue;
            } else if entry.is_dir() {
                open.push((entry, inside(&name)));
            } else if entry.extension().is_some_and(|e| e == "rs") {
                let module = if matches!(name.as_str(), "mod" | "lib") { at.clone() } else { inside(&name) };
                let text = std::fs::read_to_string(&entry).expect("text");
                found.insert(module, without_tests(&text));
            }
        }
    }
    found
}

/// The code's tokens, without comments and test-only items.
fn without_tests(text: &str) -> String {
    // A doc comment would become an attribute.
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let is_for_tests = |item: &&Item| {
        let attributes = match item {
            Item::Const(i) => &i.attrs,
            Item::Fn(i) => &i.attrs,
            Item::Mod(i) => &i.attrs,
            Item::Use(i) => &i.attrs,
            _ => return false,
        };
        attributes.iter().any(|a| a.to_token_stream().to_string() == "# [cfg (test)]")
    };
    let items = syn::parse_file(&code.join("\n")).expect("Rust").items;
    let items = items.iter().filter(|item| !is_for_tests(item)).map(|item| item.to_token_stream().to_string());
    items.collect::<Vec<_>>().join("\n").replace(" :: ", "::")
}

/// The modules that this module refers to, except its ancestors and descendants.
fn used(module: &Module, text: &str, modules: &BTreeMap<Module, String>) -> BTreeSet<Module> {
    let mut found = BTreeSet::new();
    for word in ["crate", "super", "self"] {
        for (at, _) in text.match_indices(&format!("{word}::")) {
            let before = text[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let mut base = match word {
                "crate" => Module::new(),
                _ => module.clone(),
            };
            let mut rest = &text[at + word.len() + 2..];
            if word == "super" {
                base.pop();
                while let Some(further) = rest.strip_prefix("super::") {
                    base.pop();
                    rest = further;
                }
            }
            named(&base, rest, modules, &mut |m| {
                if !module.starts_with(&m) && !m.starts_with(module) {
                    found.insert(m);
                }
            });
        }
    }
    found
}

/// For `a::b::{c, d::e}` relative to `base`: the longest prefix of each path that names a module.
fn named(base: &Module, text: &str, modules: &BTreeMap<Module, String>, each: &mut dyn FnMut(Module)) {
    if let Some(list) = text.strip_prefix('{') {
        let (mut depth, mut begin) = (0, 0);
        for (i, c) in list.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    named(base, list[begin..i].trim(), modules, each);
                    begin = i + 1;
                    if c == '}' {
                        return;
                    }
                }
                _ => {}
            }
        }
        return;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let deeper: Module = base.iter().cloned().chain([text[..end].to_owned()]).collect();
    match modules.contains_key(&deeper) {
        true => match text[end..].strip_prefix("::") {
            Some(rest) => named(&deeper, rest, modules, each),
            None => each(deeper),
        },
        false => each(base.clone()),
    }
}
