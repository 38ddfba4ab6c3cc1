//! The functions of templates that need nothing but their arguments.

use super::super::yaml;
use super::template::{Missing, Run};
use super::value::ChartValue;

/// What a method of the objects of Helm gives without a cluster and without other files.
pub(crate) fn method(path: &str) -> Result<ChartValue, Missing> {
    match path {
        "Capabilities.APIVersions.Has" => Ok(false.into()),
        _ if path.starts_with("Files.") => Ok(ChartValue::Null),
        _ => Err(format!("`.{path}`")),
    }
}

/// Calls a function; what it needs and is not here is the error.
pub(crate) fn call(
    run: &mut Run<'_>,
    name: &str,
    arguments: Vec<ChartValue>,
    dot: &ChartValue,
) -> Result<ChartValue, Missing> {
    let at = |index: usize| arguments.get(index).cloned().unwrap_or_default();
    let last = || arguments.last().cloned().unwrap_or_default();
    let text = |index: usize| at(index).shown();
    let number = |index: usize| at(index).number().unwrap_or(0);
    Ok(match name {
        "include" => ChartValue::Scalar(run.include(&text(0), &at(1))?),
        "tpl" => match at(0) {
            ChartValue::Scalar(template) if template.contains("{{") => ChartValue::Scalar(
                run.as_template(&template, &arguments.get(1).cloned().unwrap_or(dot.clone()))?,
            ),
            other => other,
        },
        "default" => {
            let given = last();
            if given.holds() { given } else { at(0) }
        }
        "coalesce" => arguments
            .iter()
            .find(|it| it.holds())
            .cloned()
            .unwrap_or_default(),
        "required" => {
            let given = last();
            if given == ChartValue::Null || given == ChartValue::text("") {
                return Err(format!("a value: {}", text(0)));
            }
            given
        }
        "ternary" => {
            if at(2).holds() {
                at(0)
            } else {
                at(1)
            }
        }
        "fail" => return Err(format!("other values: {}", text(0))),
        "empty" => (!last().holds()).into(),
        "not" => (!at(0).holds()).into(),
        "and" => arguments
            .iter()
            .find(|it| !it.holds())
            .cloned()
            .unwrap_or_else(last),
        "or" => arguments
            .iter()
            .find(|it| it.holds())
            .cloned()
            .unwrap_or_else(last),
        "eq" => arguments
            .iter()
            .skip(1)
            .any(|it| it.shown() == text(0))
            .into(),
        "ne" => (text(0) != text(1)).into(),
        "lt" => (number(0) < number(1)).into(),
        "le" => (number(0) <= number(1)).into(),
        "gt" => (number(0) > number(1)).into(),
        "ge" => (number(0) >= number(1)).into(),
        "add" | "addf" => sum(&arguments),
        "add1" => ChartValue::text(number(0).saturating_add(1).to_string()),
        "sub" => ChartValue::text(number(0).saturating_sub(number(1)).to_string()),
        "mul" => ChartValue::text(number(0).saturating_mul(number(1)).to_string()),
        "div" => ChartValue::text(number(0).checked_div(number(1)).unwrap_or(0).to_string()),
        "mod" => ChartValue::text(number(0).checked_rem(number(1)).unwrap_or(0).to_string()),
        "max" => ChartValue::text(
            arguments
                .iter()
                .filter_map(ChartValue::number)
                .max()
                .unwrap_or(0)
                .to_string(),
        ),
        "min" => ChartValue::text(
            arguments
                .iter()
                .filter_map(ChartValue::number)
                .min()
                .unwrap_or(0)
                .to_string(),
        ),
        "int" | "int64" | "float64" | "toString" | "print" | "nospace" | "html" | "urlquery" => {
            ChartValue::Scalar(last().shown())
        }
        "quote" | "squote" => match last() {
            ChartValue::Null => ChartValue::Null,
            value => ChartValue::Scalar(serde_json::Value::from(value.shown()).to_string()),
        },
        "upper" => ChartValue::Scalar(last().shown().to_uppercase()),
        "lower" => ChartValue::Scalar(last().shown().to_lowercase()),
        "title" | "camelcase" | "snakecase" | "kebabcase" | "untitle" => last(),
        "trim" => ChartValue::text(last().shown().trim()),
        "trimAll" => ChartValue::text(text(1).trim_matches(|c| text(0).contains(c))),
        "trimSuffix" => ChartValue::text(text(1).strip_suffix(&*text(0)).unwrap_or(&text(1))),
        "trimPrefix" => ChartValue::text(text(1).strip_prefix(&*text(0)).unwrap_or(&text(1))),
        "trunc" => ChartValue::Scalar(
            text(1)
                .chars()
                .take(usize::try_from(number(0)).unwrap_or(usize::MAX))
                .collect::<String>(),
        ),
        "replace" if !text(0).is_empty() => ChartValue::Scalar(text(2).replace(&text(0), &text(1))),
        "contains" => text(1).contains(&text(0)).into(),
        "hasPrefix" => text(1).starts_with(&text(0)).into(),
        "hasSuffix" => text(1).ends_with(&text(0)).into(),
        "indent" => ChartValue::Scalar(indented(&text(1), number(0))),
        "nindent" => ChartValue::Scalar(format!("\n{}", indented(&text(1), number(0)))),
        "toYaml" | "toYamlPretty" => ChartValue::Scalar(match last() {
            ChartValue::Null => "null".to_owned(),
            value => value.yaml(),
        }),
        "fromYaml" | "fromYamlArray" | "fromJson" => {
            let documents = yaml::parse(&last().shown()).ok();
            documents
                .and_then(|it| it.first().map(ChartValue::from))
                .unwrap_or_default()
        }
        "toJson" | "toRawJson" => {
            ChartValue::Scalar(serde_json::Value::from(last().shown()).to_string())
        }
        "printf" => ChartValue::Scalar(printf(&text(0), arguments.get(1..).unwrap_or_default())),
        "list" | "tuple" => ChartValue::List(arguments),
        "dict" => ChartValue::Map(
            arguments
                .chunks(2)
                .map(|pair| (pair[0].shown(), pair.get(1).cloned().unwrap_or_default()))
                .collect(),
        ),
        "get" => at(0).get(&text(1)).cloned().unwrap_or_default(),
        "dig" => {
            let keys = arguments.len().saturating_sub(2);
            let map = last();
            let found = arguments
                .iter()
                .take(keys)
                .try_fold(&map, |value, key| value.get(&key.shown()));
            found.cloned().unwrap_or_else(|| at(keys))
        }
        "hasKey" => at(0).get(&text(1)).is_some().into(),
        "index" => arguments
            .iter()
            .skip(1)
            .fold(at(0), |value, key| match &value {
                ChartValue::List(items) => key
                    .number()
                    .and_then(|at| items.get(usize::try_from(at).ok()?))
                    .cloned()
                    .unwrap_or_default(),
                value => value.get(&key.shown()).cloned().unwrap_or_default(),
            }),
        "set" => with(at(0), text(1), at(2)),
        "omit" => match at(0) {
            ChartValue::Map(entries) => {
                let names: Vec<String> = arguments.iter().skip(1).map(ChartValue::shown).collect();
                ChartValue::Map(
                    entries
                        .into_iter()
                        .filter(|(name, _)| !names.contains(name))
                        .collect(),
                )
            }
            other => other,
        },
        "pick" => match at(0) {
            ChartValue::Map(entries) => {
                let names: Vec<String> = arguments.iter().skip(1).map(ChartValue::shown).collect();
                ChartValue::Map(
                    entries
                        .into_iter()
                        .filter(|(name, _)| names.contains(name))
                        .collect(),
                )
            }
            other => other,
        },
        "merge" | "mustMerge" => arguments.into_iter().reduce(merged).unwrap_or_default(),
        "mergeOverwrite" | "mustMergeOverwrite" => arguments
            .into_iter()
            .reduce(|a, b| merged(b, a))
            .unwrap_or_default(),
        "deepCopy" | "mustDeepCopy" => last(),
        "keys" => match at(0) {
            ChartValue::Map(entries) => ChartValue::List(
                entries
                    .into_iter()
                    .map(|(name, _)| ChartValue::Scalar(name))
                    .collect(),
            ),
            _ => ChartValue::Null,
        },
        "values" => match at(0) {
            ChartValue::Map(entries) => {
                ChartValue::List(entries.into_iter().map(|(_, value)| value).collect())
            }
            _ => ChartValue::Null,
        },
        "len" => ChartValue::text(at(0).len().to_string()),
        "first" | "mustFirst" => list(at(0)).first().cloned().unwrap_or_default(),
        "last" | "mustLast" => list(at(0)).last().cloned().unwrap_or_default(),
        "rest" => ChartValue::List(list(at(0)).into_iter().skip(1).collect()),
        "append" | "mustAppend" => {
            let mut items = list(at(0));
            items.push(at(1));
            ChartValue::List(items)
        }
        "concat" => ChartValue::List(arguments.into_iter().flat_map(list).collect()),
        "uniq" | "sortAlpha" | "compact" | "reverse" => at(0),
        "has" => list(at(1)).iter().any(|it| it.shown() == text(0)).into(),
        "join" => ChartValue::Scalar(
            list(at(1))
                .iter()
                .map(ChartValue::shown)
                .collect::<Vec<_>>()
                .join(&text(0)),
        ),
        "splitList" => ChartValue::List(text(1).split(&*text(0)).map(ChartValue::text).collect()),
        "until" => ChartValue::List(
            (0..number(0).clamp(0, 1_000))
                .map(|it| ChartValue::text(it.to_string()))
                .collect(),
        ),
        "kindIs" | "typeIs" => (kind(&at(1)) == text(0)).into(),
        "kindOf" | "typeOf" => ChartValue::text(kind(&at(0))),
        "semverCompare" => (!text(0).contains('<')).into(),
        // Without a cluster there is nothing, and neither times nor commands are random or secret.
        "lookup" => ChartValue::Null,
        "b64enc" | "b64dec" | "sha256sum" | "sha1sum" | "md5sum" | "adler32sum" | "htpasswd"
        | "derivePassword" => ChartValue::text("x"),
        "randAlphaNum" | "randAlpha" | "randNumeric" | "uuidv4" | "now" | "date"
        | "genPrivateKey" => ChartValue::text("x"),
        "regexMatch" | "mustRegexMatch" => false.into(),
        "regexReplaceAll" | "mustRegexReplaceAll" => at(1),
        "regexReplaceAllLiteral" => at(1),
        _ => return Err(format!("the function `{name}`")),
    })
}

fn sum(arguments: &[ChartValue]) -> ChartValue {
    let numbers = arguments.iter().filter_map(ChartValue::number);
    ChartValue::text(numbers.fold(0_i64, i64::saturating_add).to_string())
}

fn list(value: ChartValue) -> Vec<ChartValue> {
    match value {
        ChartValue::List(items) => items,
        _ => Vec::new(),
    }
}

fn with(map: ChartValue, key: String, value: ChartValue) -> ChartValue {
    match map {
        ChartValue::Map(mut entries) => {
            entries.retain(|(name, _)| *name != key);
            entries.push((key, value));
            ChartValue::Map(entries)
        }
        other => other,
    }
}

/// The first map, with what only the second has.
fn merged(first: ChartValue, second: ChartValue) -> ChartValue {
    match (first, second) {
        (ChartValue::Map(mut entries), ChartValue::Map(others)) => {
            for (name, value) in others {
                match entries.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, held)) => *held = merged(std::mem::take(held), value),
                    None => entries.push((name, value)),
                }
            }
            ChartValue::Map(entries)
        }
        (ChartValue::Null, other) => other,
        (first, _) => first,
    }
}

fn kind(value: &ChartValue) -> &'static str {
    match value {
        ChartValue::Null => "invalid",
        ChartValue::Scalar(text) if matches!(&**text, "true" | "false") => "bool",
        ChartValue::Scalar(_) => "string",
        ChartValue::List(_) => "slice",
        ChartValue::Map(_) => "map",
    }
}

fn indented(text: &str, by: i64) -> String {
    let pad = " ".repeat(usize::try_from(by).unwrap_or(0).min(200));
    let lines: Vec<String> = text.lines().map(|line| format!("{pad}{line}")).collect();
    lines.join("\n")
}

/// `%s`, `%d`, `%v` and `%q`, one after the other.
fn printf(format: &str, arguments: &[ChartValue]) -> String {
    let mut out = String::new();
    let mut arguments = arguments.iter();
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        if char != '%' {
            out.push(char);
            continue;
        }
        match chars.find(|c| !c.is_ascii_digit() && !matches!(c, '-' | '.' | '+')) {
            Some('%') => out.push('%'),
            Some('q') => {
                let value = arguments.next().map(ChartValue::shown).unwrap_or_default();
                out.push_str(&serde_json::Value::from(value).to_string());
            }
            Some(_) => out.push_str(&arguments.next().map(ChartValue::shown).unwrap_or_default()),
            None => {}
        }
    }
    out
}
