//! Which `#[cfg(…)]` hold in the build that is tested: Linux, every feature, no test code.

use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Lit, Meta, Token};

/// Whether the item is compiled, and is not a test.
pub(super) fn is_shipped(attributes: &[Attribute]) -> bool {
    attributes.iter().all(|attribute| {
        let path = attribute.path();
        if path.is_ident("cfg") {
            attribute
                .parse_args::<Meta>()
                .is_ok_and(|condition| holds(&condition))
        } else {
            path.segments.last().is_none_or(|last| last.ident != "test")
        }
    })
}

fn holds(condition: &Meta) -> bool {
    match condition {
        Meta::Path(path) => path.is_ident("unix") || path.is_ident("debug_assertions"),
        Meta::NameValue(pair) => {
            let value = match &pair.value {
                Expr::Lit(ExprLit {
                    lit: Lit::Str(text),
                    ..
                }) => text.value(),
                _ => String::new(),
            };
            pair.path.is_ident("feature")
                || (pair.path.is_ident("target_os") && value == "linux")
                || (pair.path.is_ident("target_family") && value == "unix")
        }
        Meta::List(list) => {
            let parts = list
                .parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
                .unwrap_or_default();
            if list.path.is_ident("not") {
                !parts.iter().any(holds)
            } else if list.path.is_ident("any") {
                parts.iter().any(holds)
            } else {
                parts.iter().all(holds)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(attributes: &str) -> bool {
        let item: syn::ItemFn = syn::parse_str(&format!("{attributes} fn f() {{}}")).expect("a fn");
        is_shipped(&item.attrs)
    }

    #[test]
    fn what_linux_compiles_with_every_feature_is_shipped() {
        for yes in [
            "",
            "#[inline]",
            "#[cfg(unix)]",
            "#[cfg(all(unix, feature = \"net\"))]",
            "#[cfg(not(windows))]",
            "#[cfg(any(windows, target_os = \"linux\"))]",
        ] {
            assert!(shipped(yes), "{yes}");
        }
    }

    #[test]
    fn tests_and_other_systems_are_not() {
        for no in [
            "#[test]",
            "#[tokio::test]",
            "#[cfg(test)]",
            "#[cfg(windows)]",
            "#[cfg(all(unix, not(feature = \"net\")))]",
            "#[cfg(not(target_os = \"linux\"))]",
            "#[cfg(loom)]",
        ] {
            assert!(!shipped(no), "{no}");
        }
    }
}
