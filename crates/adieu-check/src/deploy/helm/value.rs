//! Values of a chart, as templates see them.

use super::super::yaml::{self, Node};

/// A value. Scalars stay as they are written: what is true, and what is a number, is asked of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Value {
    #[default]
    Null,
    Scalar(String),
    List(Vec<Value>),
    Map(Vec<(String, Value)>),
}

impl From<&Node> for Value {
    fn from(node: &Node) -> Value {
        match &node.value {
            yaml::Value::Scalar(text) if matches!(&**text, "null" | "~") => Value::Null,
            yaml::Value::Scalar(text) => Value::Scalar(text.clone()),
            yaml::Value::List(items) => Value::List(items.iter().map(Value::from).collect()),
            yaml::Value::Map(entries) => Value::Map(
                entries
                    .iter()
                    .map(|(key, value)| {
                        (
                            key.text().unwrap_or_default().to_owned(),
                            Value::from(value),
                        )
                    })
                    .collect(),
            ),
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Value {
        Value::Scalar(value.to_string())
    }
}

impl Value {
    pub(crate) fn text(text: impl Into<String>) -> Value {
        Value::Scalar(text.into())
    }

    pub(crate) fn map(entries: &[(&str, Value)]) -> Value {
        let entries = entries.iter();
        Value::Map(
            entries
                .map(|(key, value)| ((*key).to_owned(), value.clone()))
                .collect(),
        )
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Value::Map(entries) => entries
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// As a condition takes it.
    pub(crate) fn holds(&self) -> bool {
        match self {
            Value::Null => false,
            Value::Scalar(text) => !matches!(&**text, "" | "false" | "0"),
            Value::List(items) => !items.is_empty(),
            Value::Map(entries) => !entries.is_empty(),
        }
    }

    /// As it is printed.
    pub(crate) fn shown(&self) -> String {
        match self {
            Value::Null => String::new(),
            Value::Scalar(text) => text.clone(),
            Value::List(_) | Value::Map(_) => self.yaml(),
        }
    }

    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            Value::Scalar(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Value::Null => 0,
            Value::Scalar(text) => text.len(),
            Value::List(items) => items.len(),
            Value::Map(entries) => entries.len(),
        }
    }

    /// As YAML, without a line end behind it.
    pub(crate) fn yaml(&self) -> String {
        let mut out = String::new();
        self.write_yaml(0, &mut out);
        out.trim_end().to_owned()
    }

    fn write_yaml(&self, indent: usize, out: &mut String) {
        let pad = " ".repeat(indent);
        match self {
            Value::Null => out.push_str("null\n"),
            Value::Scalar(text) => {
                out.push_str(&scalar(text));
                out.push('\n');
            }
            Value::List(items) if items.is_empty() => out.push_str("[]\n"),
            Value::Map(entries) if entries.is_empty() => out.push_str("{}\n"),
            Value::List(items) => {
                for item in items {
                    let mut inner = String::new();
                    item.write_yaml(indent + 2, &mut inner);
                    // The first line stands behind the dash.
                    out.push_str(&pad);
                    out.push_str("- ");
                    out.push_str(inner.trim_start_matches(' '));
                }
            }
            Value::Map(entries) => {
                for (key, value) in entries {
                    out.push_str(&pad);
                    out.push_str(&scalar(key));
                    out.push(':');
                    let is_block =
                        matches!(value, Value::List(_) | Value::Map(_)) && value.len() > 0;
                    out.push(if is_block { '\n' } else { ' ' });
                    value.write_yaml(if is_block { indent + 2 } else { 0 }, out);
                }
            }
        }
    }
}

/// A text as YAML takes it back.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/' || c == '.')
        && text
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./+@ ".contains(c))
        && !text.ends_with(' ');
    if is_plain {
        text.to_owned()
    } else {
        serde_json::Value::from(text).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::Value;

    #[test]
    fn values_are_printed_as_yaml() {
        let value = Value::map(&[
            (
                "a",
                Value::List(vec![Value::map(&[
                    ("x", Value::text("1")),
                    ("y", Value::text("b: c")),
                ])]),
            ),
            ("e", Value::Map(Vec::new())),
            ("m", Value::map(&[("k", Value::Null)])),
        ]);
        assert_eq!(
            value.yaml(),
            "a:\n  - x: 1\n    y: \"b: c\"\ne: {}\nm:\n  k: null"
        );
    }
}
