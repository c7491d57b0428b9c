//! The call sites of a trace: folded stacks, and pprof's profile.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::folded::frame;
use super::pprof::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use iotrail_answer::callsites::{self, SiteValue};
use iotrail_schema::stacks::{Frame, StackRecord, Stacks};
use iotrail_schema::trace_record::TraceRecord;

/// Values of stacks with name and unit.
pub const VALUES: [(&str, &str, SiteValue); 8] = [
    ("requests", "count", SiteValue::Requests),
    ("latency", "nanoseconds", SiteValue::Latency),
    ("punts", "count", SiteValue::Punts),
    ("errors", "count", SiteValue::Errors),
    ("calls", "count", SiteValue::Calls),
    ("failed_calls", "count", SiteValue::CallErrors),
    ("cpu", "nanoseconds", SiteValue::Cpu),
    // pprof displays the last one by default.
    ("blocked", "nanoseconds", SiteValue::Blocked),
];

fn sum(stack: &StackRecord, value: SiteValue) -> u64 {
    stack.uses.iter().map(|of| value.of(of)).sum()
}

/// `thread;outermost;…;innermost value`, one line per stack.
pub fn folded(stacks: &Stacks, value: SiteValue) -> Vec<String> {
    let line = |stack: &StackRecord| {
        let n = Some(sum(stack, value)).filter(|n| *n > 0)?;
        let functions = stack.frames.iter().rev().filter_map(|number| stacks.frames.get(*number as usize));
        let functions = functions.map(|of| frame(&callsites::function(of)));
        let all: Vec<String> = std::iter::once(frame(&stack.comm)).chain(functions).collect();
        Some(format!(
            "{} {n}",
            if stack.frames.is_empty() { format!("{};[no stack]", all.join(";")) } else { all.join(";") }
        ))
    };
    stacks.stacks.iter().filter_map(line).collect()
}

/// A pprof profile, compressed with gzip as its tools expect.
pub fn pprof(trace: &TraceRecord, stacks: &Stacks, out: impl Write) -> io::Result<()> {
    let mut packed = GzEncoder::new(out, Compression::default());
    packed.write_all(&profile(trace, stacks).encode_to_vec())?;
    packed.finish()?.flush()
}

/// The string table; index 0 is the empty string.
struct Texts {
    numbers: HashMap<String, i64>,
    all: Vec<String>,
}

impl Texts {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(known) = self.numbers.get(text) {
            return *known;
        }
        let number = self.all.len() as i64;
        self.numbers.insert(text.to_owned(), number);
        self.all.push(text.to_owned());
        number
    }
}

fn profile(trace: &TraceRecord, stacks: &Stacks) -> Profile {
    let mut texts = Texts { numbers: HashMap::from([(String::new(), 0)]), all: vec![String::new()] };
    let mut mappings: Vec<Mapping> = vec![];
    let mut functions: HashMap<(String, Option<String>), Function> = HashMap::new();
    let mut locations: Vec<Location> = vec![];
    // pprof names the profile after the first mapping.
    if let Some((own, module)) =
        stacks.frames.iter().filter(|of| !of.library).find_map(|of| Some((of, of.module.as_deref()?)))
    {
        mapping(&mut mappings, texts.number(module), own);
    }
    for (i, of) in stacks.frames.iter().enumerate() {
        let module = of.module.as_deref().map_or(0, |module| mapping(&mut mappings, texts.number(module), of));
        let name = callsites::function(of);
        let id = functions.len() as u64 + 1;
        let function = functions.entry((name.clone(), of.file.clone())).or_insert_with(|| Function {
            id,
            name: texts.number(&name),
            system_name: texts.number(&name),
            filename: texts.number(of.file.as_deref().unwrap_or_default()),
        });
        let line = Line { function_id: function.id, line: of.line.unwrap_or(0).into() };
        locations.push(Location { id: i as u64 + 1, mapping_id: module, address: of.offset, line: vec![line] });
    }
    let sample_type =
        VALUES.iter().map(|(name, unit, _)| ValueType { r#type: texts.number(name), unit: texts.number(unit) });
    let sample_type: Vec<ValueType> = sample_type.collect();
    let thread = texts.number("thread");
    let sample = stacks.stacks.iter().filter(|stack| !stack.frames.is_empty()).map(|stack| Sample {
        location_id: stack.frames.iter().map(|number| u64::from(*number) + 1).collect(),
        value: VALUES.iter().map(|(.., value)| sum(stack, *value) as i64).collect(),
        label: vec![Label { key: thread, str: texts.number(&stack.comm) }],
    });
    let sample: Vec<Sample> = sample.collect();
    let mut function: Vec<Function> = functions.into_values().collect();
    function.sort_by_key(|function| function.id);
    let default_sample_type = texts.number("blocked");
    Profile {
        sample_type,
        sample,
        mapping: mappings,
        location: locations,
        function,
        string_table: texts.all,
        time_nanos: (trace.started_unix_s * 1_000_000_000) as i64,
        duration_nanos: trace.total.elapsed_ns as i64,
        default_sample_type,
    }
}

/// ID of the file's mapping. Functions already have names, so pprof does not symbolise.
fn mapping(mappings: &mut Vec<Mapping>, filename: i64, of: &Frame) -> u64 {
    let known = mappings.iter().position(|known| known.filename == filename);
    let at = known.unwrap_or_else(|| {
        let id = mappings.len() as u64 + 1;
        mappings.push(Mapping { id, filename, ..Mapping::default() });
        mappings.len() - 1
    });
    let mapping = &mut mappings[at];
    mapping.memory_limit = mapping.memory_limit.max(of.offset + 1);
    mapping.has_functions |= of.function.is_some();
    mapping.has_filenames |= of.file.is_some();
    mapping.has_line_numbers |= of.line.is_some();
    mapping.has_inline_frames |= of.inlined;
    mapping.id
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use iotrail_schema::stacks::{SiteAction, SiteUse};
    use std::io::Read as _;

    fn stacks() -> Stacks {
        let of = |function: Option<&str>, line: Option<u32>| Frame {
            function: function.map(Into::into),
            file: line.map(|_| "/src/wal.c".into()),
            line,
            module: Some("/bin/db".into()),
            offset: 16,
            inlined: false,
            library: false,
        };
        let uses = vec![SiteUse {
            action: SiteAction::Sleeps,
            name: "fsync".into(),
            samples: 2,
            count: 2,
            ns: 830,
            errors: 0,
            punts: 0,
        }];
        let stack = |frames: &[u32]| StackRecord {
            comm: "a;b".into(),
            frames: frames.to_vec(),
            site: None,
            uses: uses.clone(),
        };
        Stacks {
            frames: vec![of(Some("commit"), Some(41)), of(None, None)],
            stacks: vec![stack(&[0, 1]), stack(&[])],
            gaps: vec![],
        }
    }

    #[test]
    fn folded_stacks_have_the_requested_value() {
        assert_eq!(folded(&stacks(), SiteValue::Blocked), ["a_b;db+0x10;commit 830", "a_b;[no stack] 830"]);
        assert_eq!(folded(&stacks(), SiteValue::Latency), [""; 0]);
    }

    #[test]
    fn a_profile_contains_each_string_and_function_once() {
        let mut packed = vec![];
        pprof(&iotrail_testing::trace::clean(), &stacks(), &mut packed).unwrap();
        let mut bytes = vec![];
        GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let profile = Profile::decode(&bytes[..]).unwrap();
        let text = |number: i64| profile.string_table[number as usize].as_str();
        assert_eq!((text(0), profile.sample.len(), profile.function.len()), ("", 1, 2));
        assert_eq!(profile.sample[0].value.last(), Some(&830));
        let innermost = &profile.location[profile.sample[0].location_id[0] as usize - 1];
        let function = profile.function.iter().find(|of| of.id == innermost.line[0].function_id).unwrap();
        assert_eq!((text(function.name), innermost.line[0].line), ("commit", 41));
        let mut texts = profile.string_table.clone();
        texts.sort();
        texts.dedup();
        assert_eq!(texts.len(), profile.string_table.len());
    }

    #[test]
    fn the_executable_is_the_first_mapping_of_a_profile() {
        let mut stacks = stacks();
        let own = stacks.frames[0].clone();
        stacks.frames.insert(0, Frame { module: Some("/lib/liburing.so.2".into()), library: true, ..own });
        let profile = profile(&iotrail_testing::trace::clean(), &stacks);
        let files: Vec<&str> =
            profile.mapping.iter().map(|of| profile.string_table[of.filename as usize].as_str()).collect();
        assert_eq!(files, ["/bin/db", "/lib/liburing.so.2"]);
        assert_eq!(profile.location.iter().map(|at| at.mapping_id).collect::<Vec<_>>(), [2, 1, 1]);
    }
}
