//! What a function could return at once, by the type it returns.

use syn::{GenericArgument, PathArguments, ReturnType, Type};

pub(super) fn is_unit(output: &ReturnType) -> bool {
    match output {
        ReturnType::Default => true,
        ReturnType::Type(_, it) => is_empty_tuple(it),
    }
}

/// Each with a name and as code; none for types that have no simple value.
pub(super) fn values(output: &ReturnType) -> Vec<(String, String)> {
    match output {
        ReturnType::Default => vec![("at once".into(), String::new())],
        ReturnType::Type(_, it) => values_of(it)
            .into_iter()
            .map(|value| (value.clone(), value))
            .collect(),
    }
}

fn is_empty_tuple(it: &Type) -> bool {
    matches!(it, Type::Tuple(tuple) if tuple.elems.is_empty())
}

fn values_of(it: &Type) -> Vec<String> {
    let one = |value: &str| vec![value.to_owned()];
    if is_empty_tuple(it) {
        return one("()");
    }
    if let Type::Reference(reference) = it {
        let is_text = matches!(&*reference.elem, Type::Path(path) if path.path.is_ident("str"));
        return if is_text { one("\"\"") } else { Vec::new() };
    }
    let Type::Path(path) = it else {
        return Vec::new();
    };
    let Some(last) = path.path.segments.last() else {
        return Vec::new();
    };
    let first = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(inner) => Some(inner),
                _ => None,
            })
        }
        _ => None,
    };
    match last.ident.to_string().as_str() {
        "bool" => vec!["true".into(), "false".into()],
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "i128"
        | "isize" => vec!["0".into(), "1".into()],
        "Duration" | "Time" => one("::std::time::Duration::ZERO"),
        "String" => one("String::new()"),
        "Vec" => one("Vec::new()"),
        "Option" => one("None"),
        // An alias without arguments is for functions that only succeed or fail.
        "Result" => match first {
            None => one("Ok(())"),
            Some(inner) => values_of(inner)
                .into_iter()
                .map(|value| format!("Ok({value})"))
                .collect(),
        },
        "Poll" => first
            .map(values_of)
            .unwrap_or_default()
            .into_iter()
            .map(|value| format!("::std::task::Poll::Ready({value})"))
            .collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn returned(output: &str) -> Vec<String> {
        let item: syn::ItemFn =
            syn::parse_str(&format!("fn f() {output} {{ todo!() }}")).expect("a fn");
        values(&item.sig.output)
            .into_iter()
            .map(|(_, code)| code)
            .collect()
    }

    #[test]
    fn simple_types_have_simple_values() {
        assert_eq!(returned(""), [""]);
        assert_eq!(returned("-> bool"), ["true", "false"]);
        assert_eq!(returned("-> Option<MutexGuard<'_, X>>"), ["None"]);
        assert_eq!(returned("-> io::Result<()>"), ["Ok(())"]);
        assert_eq!(returned("-> fmt::Result"), ["Ok(())"]);
        assert_eq!(returned("-> Result<Option<u8>, E>"), ["Ok(None)"]);
        assert_eq!(returned("-> usize"), ["0", "1"]);
        assert_eq!(returned("-> &'static str"), ["\"\""]);
    }

    #[test]
    fn other_types_have_none() {
        for output in [
            "-> Self",
            "-> !",
            "-> &u8",
            "-> impl Iterator<Item = u8>",
            "-> io::Result<Self>",
        ] {
            assert!(returned(output).is_empty(), "{output}");
        }
    }
}
