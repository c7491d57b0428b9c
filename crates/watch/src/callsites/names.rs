//! Names the functions at positions in files, from symbols and debug information. Finds separate debug files by build
//! ID and debug link.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};

use super::frame;
use super::maps::Module;
use iotrail_schema::stacks::Frame;

/// Functions at one position, innermost first.
#[derive(Debug, Clone, Default)]
pub(super) struct Named {
    pub frames: Vec<Frame>,
    /// The outermost of these functions, into which the others are inlined, sets up a frame.
    pub has_frame: bool,
}

impl Named {
    /// Whether the code has no frame and makes calls for others, so that only the stack pointer leads to its return
    /// address.
    pub fn is_stub(&self) -> bool {
        !self.has_frame && self.frames.last().is_some_and(|frame| frame.library)
    }
}

pub(super) struct Names {
    symbolizer: Symbolizer,
    known: HashMap<(PathBuf, u64), Named>,
}

impl Default for Names {
    fn default() -> Self {
        let symbolizer = Symbolizer::builder().enable_auto_reload(false).enable_inlined_fns(true).build();
        Names { symbolizer, known: HashMap::new() }
    }
}

impl Names {
    /// `offset`: return address of the call.
    pub fn at(&mut self, module: &Module, offset: u64) -> Named {
        let key = (module.at.clone(), offset);
        if let Some(known) = self.known.get(&key) {
            return known.clone();
        }
        let named = self.look_up(module, offset);
        self.known.insert(key, named.clone());
        named
    }

    fn look_up(&self, module: &Module, offset: u64) -> Named {
        let path = Some(module.path.clone());
        let source = Source::Elf(Elf::new(&module.at));
        // The call instruction precedes the return address.
        let found = self.symbolizer.symbolize_single(&source, Input::FileOffset(offset.saturating_sub(1)));
        let Ok(Symbolized::Sym(symbol)) = found else {
            return Named { frames: vec![frame(None, (None, None, path), offset, false)], has_frame: false };
        };
        let begins_at = offset.saturating_sub(1).saturating_sub(symbol.offset as u64);
        let of = |name: &str, code: Option<&CodeInfo<'_>>, inlined| {
            let (file, line) = code.map_or((None, None), |code| (Some(file_of(code)), code.line));
            frame(Some(name.to_owned()), (file, line, path.clone()), offset, inlined)
        };
        let inlined = symbol.inlined.iter().rev().map(|inlined| of(&inlined.name, inlined.code_info.as_ref(), true));
        let outer = of(&symbol.name, symbol.code_info.as_deref(), false);
        Named { frames: inlined.chain([outer]).collect(), has_frame: has_frame(&module.at, begins_at) }
    }
}

fn file_of(code: &CodeInfo<'_>) -> String {
    code.to_path().to_string_lossy().into_owned()
}

/// Whether the function begins by setting up a frame.
fn has_frame(file: &Path, begins_at: u64) -> bool {
    let mut code = [0; 32];
    let read = File::open(file).and_then(|file| file.read_at(&mut code, begins_at)).unwrap_or(0);
    sets_up_frame(&code[..read])
}

/// `push %rbp; mov %rsp,%rbp`, in either encoding
#[cfg(target_arch = "x86_64")]
fn sets_up_frame(code: &[u8]) -> bool {
    code.windows(4).any(|at| at == [0x55, 0x48, 0x89, 0xe5] || at == [0x55, 0x48, 0x8b, 0xec])
}

/// `stp x29, x30, […]`
#[cfg(target_arch = "aarch64")]
fn sets_up_frame(code: &[u8]) -> bool {
    let words = code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
    words.map(|word| word & 0x7fff).any(|registers| registers == 0x7bfd)
}

#[cfg(test)]
mod tests {
    use super::super::maps::{Mappings, Place};
    use super::*;

    #[inline(never)]
    fn place_of_this_function() -> Place {
        let address = place_of_this_function as *const () as u64;
        Mappings::read(std::process::id(), &mut vec![]).unwrap().place(address + 5)
    }

    #[test]
    fn a_function_of_this_program_is_resolved_by_name() {
        let Place::File { module, offset } = place_of_this_function() else { panic!("no file") };
        let named = Names::default().at(&module, offset);
        let function = named.frames.last().and_then(|frame| frame.function.clone()).unwrap();
        assert!(function.ends_with("place_of_this_function"), "{function}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn a_frame_setup_is_recognized_by_its_instructions() {
        assert!(sets_up_frame(&[0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x90]));
        assert!(!sets_up_frame(&[0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x89, 0xf8, 0x0f, 0x05, 0xc3]));
    }
}
