//! YAML as a small tree with line numbers, bounded in depth and in size.

use rustc_hash::FxHashMap;
use saphyr_parser::{Event, Parser};

use crate::finding::Place;

/// Deeper manifests do not exist.
const DEEPEST: usize = 100;
/// An alias inside an alias inside an alias can grow without end; nothing real is this large.
const MOST_NODES: usize = 1_000_000;

/// One value.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) line: u32,
    pub(crate) value: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Scalar(String),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

/// Why a file is not YAML.
#[derive(Debug)]
pub(crate) struct YamlError {
    pub(crate) place: Place,
    pub(crate) message: String,
}

impl Node {
    /// The value of a key, through merge keys.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let Value::Map(entries) = &self.value else {
            return None;
        };
        let own = entries
            .iter()
            .find(|(name, _)| name.text() == Some(key))
            .map(|(_, value)| value);
        own.or_else(|| {
            let merged = entries.iter().filter(|(name, _)| name.text() == Some("<<"));
            merged
                .flat_map(|(_, value)| match &value.value {
                    Value::List(several) => several.iter().collect(),
                    _ => vec![value],
                })
                .find_map(|value| value.get(key))
        })
    }

    /// The value at the end of several keys.
    pub(crate) fn at(&self, keys: &[&str]) -> Option<&Node> {
        keys.iter().try_fold(self, |node, key| node.get(key))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn number(&self) -> Option<u64> {
        self.text().and_then(|text| text.trim().parse().ok())
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    pub(crate) fn entries(&self) -> &[(Node, Node)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// A command: a list of words, or one string as a shell would split it.
    pub(crate) fn words(&self) -> Vec<String> {
        match &self.value {
            Value::Scalar(text) => super::command::split(text),
            Value::List(items) => items
                .iter()
                .filter_map(|item| item.text().map(str::to_owned))
                .collect(),
            Value::Map(_) => Vec::new(),
        }
    }

    fn size(&self) -> usize {
        match &self.value {
            Value::Scalar(_) => 1,
            Value::List(items) => 1 + items.iter().map(Node::size).sum::<usize>(),
            Value::Map(entries) => {
                1 + entries
                    .iter()
                    .map(|(key, value)| key.size() + value.size())
                    .sum::<usize>()
            }
        }
    }

    /// Equal in what it says, wherever it stands.
    pub(crate) fn same(&self, other: &Node) -> bool {
        match (&self.value, &other.value) {
            (Value::Scalar(a), Value::Scalar(b)) => a == b,
            (Value::List(a), Value::List(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b))
            }
            (Value::Map(a), Value::Map(b)) => {
                a.len() == b.len()
                    && a.iter().all(|(key, value)| {
                        b.iter()
                            .any(|(other, against)| key.same(other) && value.same(against))
                    })
            }
            _ => false,
        }
    }
}

/// An open list or map. A map collects keys and values in turn.
struct Open {
    line: u32,
    anchor: usize,
    is_map: bool,
    items: Vec<Node>,
}

/// All documents of a file.
pub(crate) fn parse(text: &str) -> Result<Vec<Node>, YamlError> {
    let mut documents = Vec::new();
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: FxHashMap<usize, Node> = FxHashMap::default();
    let mut nodes = 0;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| YamlError {
            place: Place {
                line: error.marker().line().max(1) as u32,
                column: error.marker().col() as u32 + 1,
            },
            message: format!("syntax error: {}", error.info()),
        })?;
        let line = span.start.line().max(1) as u32;
        let fail = |message: &str| YamlError {
            place: Place::line(line),
            message: message.to_owned(),
        };
        // Only an alias brings in more than one node at a time.
        let mut grown = 1;
        let (node, anchor) = match event {
            Event::Scalar(text, _, anchor, _) => (
                Node {
                    line,
                    value: Value::Scalar(text.into_owned()),
                },
                anchor,
            ),
            Event::Alias(anchor) => match anchors.get(&anchor) {
                Some(node) => {
                    grown = node.size();
                    (node.clone(), 0)
                }
                None => (
                    Node {
                        line,
                        value: Value::Scalar(String::new()),
                    },
                    0,
                ),
            },
            Event::SequenceStart(anchor, _) => {
                open.push(Open {
                    line,
                    anchor,
                    is_map: false,
                    items: Vec::new(),
                });
                if open.len() > DEEPEST {
                    return Err(fail("is nested too deeply to be checked"));
                }
                continue;
            }
            Event::MappingStart(anchor, _) => {
                open.push(Open {
                    line,
                    anchor,
                    is_map: true,
                    items: Vec::new(),
                });
                if open.len() > DEEPEST {
                    return Err(fail("is nested too deeply to be checked"));
                }
                continue;
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(done) = open.pop() else { continue };
                let value = if done.is_map {
                    let mut items = done.items.into_iter();
                    let mut entries = Vec::new();
                    while let (Some(key), Some(value)) = (items.next(), items.next()) {
                        entries.push((key, value));
                    }
                    Value::Map(entries)
                } else {
                    Value::List(done.items)
                };
                (
                    Node {
                        line: done.line,
                        value,
                    },
                    done.anchor,
                )
            }
            _ => continue,
        };
        nodes += grown;
        if nodes > MOST_NODES {
            return Err(fail("is too large to be checked"));
        }
        if anchor > 0 {
            anchors.insert(anchor, node.clone());
        }
        match open.last_mut() {
            Some(parent) => parent.items.push(node),
            None => documents.push(node),
        }
    }
    Ok(documents)
}
