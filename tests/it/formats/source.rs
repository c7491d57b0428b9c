//! The types in the source in their JSON form: names, doc comments, value types.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use quote::ToTokens as _;
use syn::{Attribute, Expr, Fields, GenericArgument, Item, Lit, Meta, PathArguments, Type};

/// A struct or an enum.
pub struct Shape {
    pub doc: String,
    pub is_enum: bool,
    pub fields: Vec<Field>,
}

/// A struct's field, an enum's variant, or a field of a variant (`command.argv`).
pub struct Field {
    pub name: String,
    pub doc: String,
    /// Its JSON type as text; iotrail's types are prefixed with `@`.
    pub json: String,
    /// Its fields are flattened into the parent.
    pub flat: bool,
}

/// All types by file and name: `top_record::VehicleShare`; those of `crates/schema` first.
pub struct Source(Vec<BTreeMap<String, Shape>>);

impl Source {
    pub fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folders = ["schema/src", "answer/src", "report/src", "store/src", "base/src", "lab/src", "../src"];
        let (schema, others) = folders.split_at(1);
        Self([schema, others].map(|folders| types(&root.join("crates"), folders)).into())
    }

    /// Looks up `module::Name`, or `Name` if only one module has it.
    #[track_caller]
    pub fn find(&self, name: &str) -> &Shape {
        for all in &self.0 {
            if let Some(shape) = all.get(name) {
                return shape;
            }
            let found: Vec<_> = all.iter().filter(|(key, _)| key.ends_with(&format!("::{name}"))).collect();
            match &found[..] {
                [] => {}
                [(_, shape)] => return shape,
                several => panic!("{name}: {:?}", several.iter().map(|(key, _)| key).collect::<Vec<_>>()),
            }
        }
        panic!("there is no type {name}");
    }
}

fn types(root: &Path, folders: &[&str]) -> BTreeMap<String, Shape> {
    let mut files = Vec::new();
    folders.iter().for_each(|folder| collect(&root.join(folder), &mut files));
    let mut all = BTreeMap::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("text");
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let stem = file.file_stem().expect("a name").to_string_lossy().into_owned();
        // A directory's main module is named like the directory.
        let module = match stem.as_str() {
            "mod" | "lib" => {
                file.parent().and_then(Path::file_name).map_or(stem.clone(), |n| n.to_string_lossy().into_owned())
            }
            _ => stem,
        };
        for (name, shape) in parsed.items.iter().filter_map(shape) {
            all.entry(format!("{module}::{name}")).or_insert(shape);
        }
    }
    all
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for entry in entries {
        let is_test = entry.file_name().is_some_and(|n| n.to_string_lossy().contains("test"));
        match entry.is_dir() {
            _ if is_test => {}
            true => collect(&entry, files),
            false if entry.extension().is_some_and(|e| e == "rs") => files.push(entry),
            false => {}
        }
    }
}

fn shape(item: &Item) -> Option<(String, Shape)> {
    match item {
        Item::Struct(s) if is_written(&s.attrs) => {
            let fields = s.fields.iter().filter_map(field).collect();
            Some((s.ident.to_string(), Shape { doc: doc(&s.attrs), is_enum: false, fields }))
        }
        Item::Enum(e) if is_written(&e.attrs) => {
            let snake = has(&e.attrs, "rename_all").is_some();
            let mut fields = Vec::new();
            for v in &e.variants {
                let name = if snake { snake_case(&v.ident.to_string()) } else { v.ident.to_string() };
                let inner: Vec<Field> = match &v.fields {
                    Fields::Named(named) => named.named.iter().filter_map(field).collect(),
                    _ => Vec::new(),
                };
                fields.push(Field { name: name.clone(), doc: doc(&v.attrs), json: String::new(), flat: false });
                if let Fields::Unnamed(of) = &v.fields {
                    fields.last_mut().expect("just pushed").json =
                        of.unnamed.first().map(|f| json(&f.ty)).unwrap_or_default();
                }
                fields.extend(inner.into_iter().map(|f| Field { name: format!("{name}.{}", f.name), ..f }));
            }
            Some((e.ident.to_string(), Shape { doc: doc(&e.attrs), is_enum: true, fields }))
        }
        // Its variants have their names as values.
        Item::Macro(m) if m.mac.path.segments.last().is_some_and(|last| last.ident == "named") => {
            shape(&Item::Enum(m.mac.parse_body().expect("an enum")))
        }
        // Counts of a network server: names with doc comments, all integers.
        Item::Macro(m) if m.mac.path.is_ident("counts") => {
            let mut fields = Vec::new();
            let mut text = String::new();
            for line in m.mac.tokens.clone() {
                let token = line.to_string();
                if let Some(said) = token.strip_prefix('[').and_then(|t| t.split_once('"')).map(|(_, t)| t) {
                    text += said.rsplit_once('"').map_or(said, |(t, _)| t);
                } else if token.chars().all(|c| c.is_ascii_lowercase() || c == '_' || c.is_ascii_digit()) {
                    let doc = tidy(&std::mem::take(&mut text));
                    fields.push(Field { name: token, doc, json: "integer".into(), flat: false });
                }
            }
            Some(("Counts".into(), Shape { doc: "Events that a server thread counts.".into(), is_enum: false, fields }))
        }
        _ => None,
    }
}

/// Whether the type implements `Serialize`.
fn is_written(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|a| a.path().is_ident("derive") && a.to_token_stream().to_string().contains("Serialize"))
}

fn field(f: &syn::Field) -> Option<Field> {
    if has(&f.attrs, "skip").is_some() {
        return None;
    }
    let name = match has(&f.attrs, "rename") {
        Some(text) => text.split('"').nth(1)?.to_owned(),
        None => f.ident.as_ref()?.to_string(),
    };
    let left_out = has(&f.attrs, "skip_serializing_if").is_some();
    let json = json(&f.ty);
    let json = if left_out { json.replace(" or null", ", or omitted") } else { json };
    Some(Field { name, doc: doc(&f.attrs), json, flat: has(&f.attrs, "flatten").is_some() })
}

/// The part of `#[serde(…)]` that starts with this word.
fn has(attrs: &[Attribute], word: &str) -> Option<String> {
    let serde = attrs.iter().filter(|a| a.path().is_ident("serde"));
    let parts = serde.filter_map(|a| match &a.meta {
        Meta::List(list) => Some(list.tokens.to_string()),
        _ => None,
    });
    let all: Vec<String> = parts.flat_map(|p| p.split(',').map(|s| s.trim().to_owned()).collect::<Vec<_>>()).collect();
    all.into_iter().find(|part| part.split([' ', '=']).next() == Some(word))
}

fn doc(attrs: &[Attribute]) -> String {
    let lines = attrs.iter().filter(|a| a.path().is_ident("doc")).filter_map(|a| match &a.meta {
        Meta::NameValue(nv) => match &nv.value {
            Expr::Lit(lit) => match &lit.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    tidy(&lines.collect::<Vec<_>>().join(" "))
}

/// A single paragraph, without parts that only rustdoc uses: links between items, and module paths of values.
fn tidy(text: &str) -> String {
    let mut out = text.split_whitespace().collect::<Vec<_>>().join(" ").replace("[`", "`").replace("`]", "`");
    while let Some(at) = out.match_indices(" (`").map(|(at, _)| at).find(|at| {
        let inside = &out[at + 3..];
        inside.split_once("`)").is_some_and(|(path, _)| path.contains("::") && !path.contains(' '))
    }) {
        let end = out[at..].find("`)").map_or(out.len(), |end| at + end + 2);
        out.replace_range(at..end, "");
    }
    out
}

/// The JSON type as text: `list of integer or null`.
fn json(ty: &Type) -> String {
    match ty {
        Type::Reference(r) => json(&r.elem),
        Type::Slice(s) => format!("list of {}", json(&s.elem)),
        Type::Array(a) => format!("list of {} × {}", a.len.to_token_stream(), json(&a.elem)),
        Type::Tuple(t) => format!("list of {} × {}", t.elems.len(), t.elems.first().map(json).unwrap_or_default()),
        Type::Path(p) => {
            let last = p.path.segments.last().expect("a path has an end");
            let inner: Vec<String> = match &last.arguments {
                PathArguments::AngleBracketed(a) => {
                    let types = a.args.iter().filter_map(|a| match a {
                        GenericArgument::Type(t) => Some(json(t)),
                        _ => None,
                    });
                    types.collect()
                }
                _ => Vec::new(),
            };
            let first = || inner.first().cloned().unwrap_or_default();
            match last.ident.to_string().as_str() {
                "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "integer".into(),
                "f64" => "number".into(),
                "bool" => "boolean".into(),
                // The field's doc comment lists the values.
                "Commit" | "Engine" | "Rw" | "Wait" | "Reaper" | "Trace" => "string".into(),
                "String" | "Name" | "str" | "PathBuf" | "Path" => "string".into(),
                "Cow" => "string".into(),
                "Value" => "any".into(),
                "T" => "number".into(),
                "Map" => "object".into(),
                "BTreeMap" => format!("object of {}", inner.last().cloned().unwrap_or_default()),
                "Option" => format!("{} or null", first()),
                "Vec" => format!("list of {}", first()),
                "Box" | "Shared" => first(),
                // Stored in a format of its own, but printed as a list.
                "Measurements" => "list of @Measurement".into(),
                name => format!("@{name}"),
            }
        }
        other => other.to_token_stream().to_string(),
    }
}

fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.extend(c.to_lowercase());
    }
    out
}
