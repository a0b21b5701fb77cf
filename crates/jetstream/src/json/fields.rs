//! Macros for the types of requests: objects with fields, and words that stand for values.

/// Says how the fields of an object are named and what Go calls their types. Names are in lower case.
macro_rules! fields {
    ($type:ty as $go_name:literal $(, with $embedded:ident as $embedded_name:literal)*; $($name:literal $go_type:literal $field:ident)*) => {
        impl $crate::json::Fields for $type {
            const GO_NAME: &'static str = $go_name;

            fn field(
                &mut self,
                name: &str,
                cursor: &mut $crate::json::Cursor<'_>,
                report: &mut $crate::json::Report,
            ) -> Result<bool, $crate::json::Abort> {
                match name {
                    $($name => {
                        report.within($name, |report| $crate::json::Decode::decode(&mut self.$field, $go_type, cursor, report))?;
                        return Ok(true);
                    })*
                    _ => {}
                }
                $(
                    let known = report.within($embedded_name, |report| self.$embedded.field(name, cursor, report))?;
                    if known {
                        return Ok(true);
                    }
                )*
                Ok(false)
            }
        }
    };
}

/// Says which words stand for the values of an enum, in JSON. What else is found is refused with the text
/// that the function makes of the raw value.
macro_rules! words {
    ($type:ty; $refusal:expr; $($word:literal $value:ident)*) => {
        impl $crate::json::Decode for $type {
            fn decode(
                &mut self,
                _: &'static str,
                cursor: &mut $crate::json::Cursor<'_>,
                _: &mut $crate::json::Report,
            ) -> Result<(), $crate::json::Abort> {
                let raw = cursor.raw();
                let refusal: fn(&[u8]) -> String = $refusal;
                $(if raw == concat!("\"", $word, "\"").as_bytes() {
                    *self = Self::$value;
                    return Ok(());
                })*
                Err($crate::json::Abort(refusal(raw)))
            }
        }
    };
}

pub(crate) use {fields, words};

/// The usual text of a word that is not known.
pub(crate) fn can_not_unmarshal(raw: &[u8]) -> String {
    format!("can not unmarshal {}", crate::go::quote(raw))
}
