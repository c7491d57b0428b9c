//! Controls libbpf's messages.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use iotrail_base::plain::say;

static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Prints libbpf's messages, including the verifier log, to standard error.
pub fn be_verbose() {
    VERBOSE.store(true, Ordering::Relaxed);
}

/// Suppresses libbpf's messages, some of which give wrong advice (EPERM: "try ulimit -l"). iotrail prints its own
/// unless libbpf's are requested.
pub fn quiet() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        if VERBOSE.load(Ordering::Relaxed) {
            let say_all = |_, text: String| text.lines().for_each(say);
            libbpf_rs::set_print(Some((libbpf_rs::PrintLevel::Info, say_all)));
        } else if std::env::var_os("IOTRAIL_LIBBPF").is_none() {
            libbpf_rs::set_print(None);
        }
    });
}
