//! What a function returns at once, by its type.

use syn::{GenericArgument, PathArguments, ReturnType, Type};

/// The values for a pair are combined, up to this many.
const COMBINED_MAX: usize = 4;

const UNSIGNED: [&str; 6] = ["u8", "u16", "u32", "u64", "u128", "usize"];
const SIGNED: [&str; 6] = ["i8", "i16", "i32", "i64", "i128", "isize"];

/// Returns expressions of a return type. There are none for types that it does not know how to make.
pub(crate) fn of_return(returned: &ReturnType) -> Vec<String> {
    match returned {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, of) => of_type(of),
    }
}

fn of_type(of: &Type) -> Vec<String> {
    match of {
        Type::Paren(inner) => of_type(&inner.elem),
        Type::Group(inner) => of_type(&inner.elem),
        Type::Tuple(tuple) if tuple.elems.is_empty() => vec!["()".to_owned()],
        Type::Tuple(tuple) => of_tuple(tuple),
        Type::Path(path) => path.path.segments.last().map(of_path).unwrap_or_default(),
        Type::Reference(reference) if reference.mutability.is_none() => of_reference(&reference.elem),
        Type::Array(array) => of_type(&array.elem).iter().map(|value| format!("[{value}; _]")).collect(),
        _ => Vec::new(),
    }
}

fn of_tuple(tuple: &syn::TypeTuple) -> Vec<String> {
    let mut all = vec![String::new()];
    for part in &tuple.elems {
        let values = of_type(part);
        all =
            all.iter().flat_map(|left| values.iter().map(move |value| format!("{left}{value}, "))).collect();
        all.truncate(COMBINED_MAX);
    }
    all.into_iter().map(|values| format!("({})", values.trim_end())).collect()
}

fn of_path(last: &syn::PathSegment) -> Vec<String> {
    let name = last.ident.to_string();
    let of_argument = || first_argument(&last.arguments).map(of_type);
    let wrapped = |with: &str| -> Vec<String> {
        of_argument().unwrap_or_default().iter().map(|value| format!("{with}({value})")).collect()
    };
    match name.as_str() {
        "bool" => owned(&["true", "false"]),
        "f32" | "f64" => owned(&["0.0", "1.0"]),
        "String" => owned(&["String::new()", "\"xyzzy\".to_owned()"]),
        "Option" => [owned(&["None"]), wrapped("Some")].concat(),
        "Result" if of_argument().is_none() => owned(&["Ok(())"]),
        "Result" => wrapped("Ok"),
        "Vec" => {
            let one = of_argument().unwrap_or_default().into_iter().take(1);
            owned(&["Vec::new()"]).into_iter().chain(one.map(|value| format!("vec![{value}]"))).collect()
        }
        "Box" => wrapped("Box::new"),
        "Arc" => wrapped("std::sync::Arc::new"),
        name if UNSIGNED.contains(&name) => owned(&["0", "1"]),
        name if SIGNED.contains(&name) => owned(&["0", "1", "-1"]),
        _ => owned(&["Default::default()"]),
    }
}

fn of_reference(of: &Type) -> Vec<String> {
    match of {
        Type::Path(path) if path.path.is_ident("str") => owned(&["\"\"", "\"xyzzy\""]),
        Type::Slice(_) => owned(&["&[]"]),
        Type::Path(_) => owned(&["Box::leak(Box::new(Default::default()))"]),
        _ => Vec::new(),
    }
}

fn first_argument(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(arguments) = arguments else { return None };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(of) => Some(of),
        _ => None,
    })
}

fn owned(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(of: &str) -> String {
        of_type(&syn::parse_str(of).expect("a type")).join(" | ")
    }

    #[test]
    fn values_follow_from_the_type() {
        assert_eq!(values("bool"), "true | false");
        assert_eq!(values("i32"), "0 | 1 | -1");
        assert_eq!(values("io::Result<()>"), "Ok(())");
        assert_eq!(values("Result<Option<u8>, E>"), "Ok(None) | Ok(Some(0)) | Ok(Some(1))");
        assert_eq!(values("(bool, u8)"), "(true, 0,) | (true, 1,) | (false, 0,) | (false, 1,)");
        assert_eq!(values("Vec<Offset>"), "Vec::new() | vec![Default::default()]");
        assert_eq!(values("&str"), "\"\" | \"xyzzy\"");
        assert_eq!(values("impl Iterator<Item = u8>"), "");
        assert_eq!(values("&mut u8"), "");
    }
}
