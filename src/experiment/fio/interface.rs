//! The interfaces that fio and `bench` have both.

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Engine {
    IoUring,
    IoUringCmd,
    Libaio,
    PosixAio,
    Sync,
    Null,
}

impl Engine {
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name {
            "io_uring" => Self::IoUring,
            "io_uring_cmd" => Self::IoUringCmd,
            "libaio" => Self::Libaio,
            "posixaio" => Self::PosixAio,
            "sync" | "psync" => Self::Sync,
            "null" => Self::Null,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::IoUring => "io_uring",
            Self::IoUringCmd => "io_uring_cmd",
            Self::Libaio => "libaio",
            Self::PosixAio => "posix_aio",
            Self::Sync => "sync",
            Self::Null => "null",
        }
    }

    pub(super) fn has_ring(self) -> bool {
        matches!(self, Self::IoUring | Self::IoUringCmd)
    }
}
