//! The available engines, one per line.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use serde::de::{self, Deserialize, Deserializer, EnumAccess, VariantAccess, Visitor};

use super::capabilities::Engine;
use super::{Drive, Opening};
use iotrail_base::error::Result;

macro_rules! engines {
    ($($kind:ident => $($module:ident)::+,)+) => {
        /// An I/O interface. [`EngineKind::engine`] has its properties.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum EngineKind {
            $($kind),+
        }

        impl EngineKind {
            /// In the order of help and `check`.
            pub const ALL: &'static [EngineKind] = &[$(EngineKind::$kind),+];
            const NAMES: &'static [&'static str] = &[$(super::$($module)::+::ENGINE.name),+];

            pub fn engine(self) -> &'static Engine {
                match self {
                    $(EngineKind::$kind => &super::$($module)::+::ENGINE,)+
                }
            }

            /// Opens the engine for a job and passes its halves to `drive`, which is compiled for each engine.
            pub fn open<D: Drive>(self, at: &Opening, drive: D) -> Result<D::Outcome> {
                match self {
                    $(EngineKind::$kind => drive.drive(super::$($module)::+::open(at)?),)+
                }
            }
        }
    };
}

engines! {
    IoUring => io_uring,
    Libaio => libaio,
    PosixAio => posix_aio,
    Sync => sync,
    Null => null,
    IoUringCmd => io_uring::cmd,
    NvmeUser => nvme::user,
}

impl EngineKind {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.engine().name == name)
    }

    /// Looks up an engine by fio's name.
    pub fn of_fio(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.engine().fio.contains(&name))
    }
}

impl ValueEnum for EngineKind {
    fn value_variants<'a>() -> &'a [Self] {
        Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let Engine { name, help, .. } = self.engine();
        let value = PossibleValue::new(*name);
        Some(match help {
            Some(help) => value.help(*help),
            None => value,
        })
    }
}

/// By name, with the error messages of a derived implementation.
impl<'de> Deserialize<'de> for EngineKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_enum("EngineKind", Self::NAMES, Named)
    }
}

struct Named;

impl<'de> Visitor<'de> for Named {
    type Value = EngineKind;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("enum EngineKind")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> std::result::Result<EngineKind, A::Error> {
        let (name, rest) = data.variant::<String>()?;
        let unknown = || de::Error::unknown_variant(&name, EngineKind::NAMES);
        let kind = EngineKind::named(&name).ok_or_else(unknown)?;
        rest.unit_variant().map(|()| kind)
    }
}

#[cfg(test)]
mod tests {
    use super::super::capabilities::{Completions, TargetKind};
    use super::*;

    #[test]
    fn each_engine_has_a_variant_in_the_record_schema() {
        use iotrail_schema::measurement::Engine;
        for kind in EngineKind::ALL {
            assert!(!matches!(Engine::from(kind.engine().name), Engine::Other(_)), "{kind}");
        }
    }

    #[test]
    fn stored_engine_names_match_those_of_the_first_release() {
        assert_eq!(
            EngineKind::NAMES[..7],
            ["io_uring", "libaio", "posix_aio", "sync", "null", "io_uring_cmd", "nvme_user"]
        );
    }

    #[test]
    fn an_engine_is_found_by_each_of_its_names() {
        for &kind in EngineKind::ALL {
            let engine = kind.engine();
            assert_eq!(EngineKind::named(engine.name), Some(kind));
            assert!(engine.fio.iter().all(|name| EngineKind::of_fio(name) == Some(kind)), "{}", engine.name);
        }
        assert_eq!((EngineKind::named("epoll"), EngineKind::of_fio("nvme_user")), (None, None));
    }

    #[test]
    fn an_engines_capabilities_are_consistent() {
        for kind in EngineKind::ALL {
            let e = kind.engine();
            assert_eq!(e.ring.is_some(), e.completions == Completions::Ring, "{}", e.name);
            assert!(e.one_in_flight.is_none() || e.completes_in_queue, "{}", e.name);
            assert!(e.synchronous_if_buffered.is_none() || e.target == TargetKind::File, "{}", e.name);
        }
    }
}
