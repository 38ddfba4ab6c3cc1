//! Values of a chart, as templates see them.

use super::super::yaml::{self, Node};

/// A value. Scalars stay as they are written: what is true, and what is a number, is asked of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum ChartValue {
    #[default]
    Null,
    Scalar(String),
    List(Vec<ChartValue>),
    Map(Vec<(String, ChartValue)>),
}

impl From<&Node> for ChartValue {
    fn from(node: &Node) -> ChartValue {
        match &node.value {
            yaml::Value::Scalar(text) if matches!(&**text, "null" | "~") => ChartValue::Null,
            yaml::Value::Scalar(text) => ChartValue::Scalar(text.clone()),
            yaml::Value::List(items) => {
                ChartValue::List(items.iter().map(ChartValue::from).collect())
            }
            yaml::Value::Map(entries) => ChartValue::Map(
                entries
                    .iter()
                    .map(|(key, value)| {
                        (
                            key.text().unwrap_or_default().to_owned(),
                            ChartValue::from(value),
                        )
                    })
                    .collect(),
            ),
        }
    }
}

impl From<bool> for ChartValue {
    fn from(value: bool) -> ChartValue {
        ChartValue::Scalar(value.to_string())
    }
}

impl ChartValue {
    pub(crate) fn text(text: impl Into<String>) -> ChartValue {
        ChartValue::Scalar(text.into())
    }

    pub(crate) fn map(entries: &[(&str, ChartValue)]) -> ChartValue {
        let entries = entries.iter();
        ChartValue::Map(
            entries
                .map(|(key, value)| ((*key).to_owned(), value.clone()))
                .collect(),
        )
    }

    pub(crate) fn get(&self, key: &str) -> Option<&ChartValue> {
        match self {
            ChartValue::Map(entries) => entries
                .iter()
                .find(|(name, _)| name == key)
                .map(|(_, value)| value),
            _ => None,
        }
    }

    /// As a condition takes it.
    pub(crate) fn holds(&self) -> bool {
        match self {
            ChartValue::Null => false,
            ChartValue::Scalar(text) => !matches!(&**text, "" | "false" | "0"),
            ChartValue::List(items) => !items.is_empty(),
            ChartValue::Map(entries) => !entries.is_empty(),
        }
    }

    /// As it is printed.
    pub(crate) fn shown(&self) -> String {
        match self {
            ChartValue::Null => String::new(),
            ChartValue::Scalar(text) => text.clone(),
            ChartValue::List(_) | ChartValue::Map(_) => self.yaml(),
        }
    }

    pub(crate) fn number(&self) -> Option<i64> {
        match self {
            ChartValue::Scalar(text) => text.trim().parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            ChartValue::Null => 0,
            ChartValue::Scalar(text) => text.len(),
            ChartValue::List(items) => items.len(),
            ChartValue::Map(entries) => entries.len(),
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
            ChartValue::Null => out.push_str("null\n"),
            ChartValue::Scalar(text) => {
                out.push_str(&scalar(text));
                out.push('\n');
            }
            ChartValue::List(items) if items.is_empty() => out.push_str("[]\n"),
            ChartValue::Map(entries) if entries.is_empty() => out.push_str("{}\n"),
            ChartValue::List(items) => {
                for item in items {
                    let mut inner = String::new();
                    item.write_yaml(indent + 2, &mut inner);
                    // The first line stands behind the dash.
                    out.push_str(&pad);
                    out.push_str("- ");
                    out.push_str(inner.trim_start_matches(' '));
                }
            }
            ChartValue::Map(entries) => {
                for (key, value) in entries {
                    out.push_str(&pad);
                    out.push_str(&scalar(key));
                    out.push(':');
                    let is_block = matches!(value, ChartValue::List(_) | ChartValue::Map(_))
                        && value.len() > 0;
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
    use super::ChartValue;

    #[test]
    fn values_are_printed_as_yaml() {
        let value = ChartValue::map(&[
            (
                "a",
                ChartValue::List(vec![ChartValue::map(&[
                    ("x", ChartValue::text("1")),
                    ("y", ChartValue::text("b: c")),
                ])]),
            ),
            ("e", ChartValue::Map(Vec::new())),
            ("m", ChartValue::map(&[("k", ChartValue::Null)])),
        ]);
        assert_eq!(
            value.yaml(),
            "a:\n  - x: 1\n    y: \"b: c\"\ne: {}\nm:\n  k: null"
        );
    }
}
