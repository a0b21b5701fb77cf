//! A declaration per setting: the field, its type, its key and its documentation.
//!
//! The doc comment of a field is also its documentation in DescribeConfigs and docs/configuration.md, so that
//! struct, table and text cannot diverge.

/// Declares a typed configuration and the table of its keys.
macro_rules! settings {
    (
        $(#[$meta:meta])*
        pub struct $name:ident, table $keys:ident {
            $( $(#[doc = $doc:literal])* $field:ident: $type:ty = $key:expr; )+
        }
        with { $( $(#[doc = $more_doc:literal])+ $vis:vis $more:ident: $more_type:ty, )* }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $( $(#[doc = $doc])* pub $field: $type, )+
            $( $(#[doc = $more_doc])+ $vis $more: $more_type, )*
        }

        /// The keys, in order of declaration.
        pub(crate) const $keys: &[crate::key::ConfigKey] =
            &[$( $key.documented(concat!($($doc),*)), )+];

        $( const _: () = assert!(
            !concat!($($doc),*).is_empty(),
            concat!("a doc comment is the documentation of a setting: ", stringify!($field), " has none"),
        ); )+

        impl $name {
            /// Fills every field with the value that `get` returns for its key.
            pub(crate) fn read(
                get: &dyn Fn(&crate::key::ConfigKey) -> Result<crate::value::Value, crate::ConfigError>,
                $( $more: $more_type, )*
            ) -> Result<Self, crate::ConfigError> {
                let mut keys = $keys.iter();
                $(
                    let $field: $type = {
                        let key = keys.next().expect("one key per field");
                        let value = get(key)?;
                        let text = value.to_string();
                        crate::value::FromValue::from_value(value)
                            .map_err(|reason| key.invalid(&text, reason))?
                    };
                )+
                Ok(Self { $( $field, )+ $( $more, )* })
            }
        }
    };
}

pub(crate) use settings;
