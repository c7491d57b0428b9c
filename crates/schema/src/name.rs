//! Short texts that long runs contain many times.

/// Like `String`; up to 24 bytes are stored inline.
pub type Name = compact_str::CompactString;

/// Declares an enum and the names of its variants, which are those in JSON: `ALL`, `name`, `Display`.
#[macro_export]
macro_rules! named {
    ($(#[$of:meta])* pub enum $enum:ident { $($(#[$doc:meta])* $variant:ident = $name:literal,)+ }) => {
        $(#[$of])*
        pub enum $enum {
            $($(#[$doc])* $variant,)+
        }

        impl $enum {
            /// In the order of their declaration.
            pub const ALL: [$enum; [$($name),+].len()] = [$($enum::$variant),+];

            pub fn name(self) -> &'static str {
                match self {
                    $($enum::$variant => $name,)+
                }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
