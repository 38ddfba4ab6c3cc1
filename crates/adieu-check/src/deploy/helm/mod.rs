//! Charts of Helm, rendered with their own values, as far as these suffice.

mod functions;
mod lexer;
mod template;
mod value;

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;
use rustc_hash::FxHashMap;

use super::yaml::{self, Node};
use crate::finding::Notice;
use template::{Context, Missing, Part, Template};
use value::ChartValue;

/// What a file is to its chart.
#[derive(Debug)]
pub(crate) enum ChartFile {
    /// `Chart.yaml`
    About(Node),
    /// `values.yaml`, or why it cannot be read.
    Values(Result<Node, String>),
    /// A file of templates; nothing where a block in it is not closed.
    Template(Option<Template>),
}

/// Whether a file of this name below a directory of templates belongs to a chart.
pub(crate) fn is_template(path: &str) -> bool {
    folder(path).is_some()
}

/// The directory of the chart that a template belongs to.
fn folder(path: &str) -> Option<&str> {
    match path.rfind("/templates/") {
        Some(at) => Some(&path[..at]),
        None => path.starts_with("templates/").then_some(""),
    }
}

pub(crate) fn template(text: &str) -> ChartFile {
    ChartFile::Template(template::parse(text))
}

pub(crate) fn values(text: &str) -> ChartFile {
    let documents =
        yaml::parse(text).map_err(|error| format!("line {}: {}", error.place.line, error.message));
    ChartFile::Values(documents.map(|documents| {
        documents.into_iter().next().unwrap_or(Node {
            line: 1,
            value: yaml::Value::Map(Vec::new()),
        })
    }))
}

/// What a template of a chart was rendered to.
pub(crate) struct Manifests {
    /// The number of its file.
    pub(crate) file: usize,
    pub(crate) documents: Vec<Node>,
}

/// A chart of the project.
#[derive(Default)]
struct Chart<'a> {
    about: Option<&'a Node>,
    values: Option<&'a Result<Node, String>>,
    values_path: Option<&'a Arc<str>>,
    templates: Vec<(usize, &'a Arc<str>, Option<&'a Template>)>,
}

/// Renders all charts, and says in one line for each what could not be.
pub(crate) fn render<'a>(
    files: impl Iterator<Item = (usize, &'a Arc<str>, &'a ChartFile)>,
) -> (Vec<Manifests>, Vec<Notice>) {
    let mut charts: BTreeMap<&str, Chart<'a>> = BTreeMap::new();
    for (index, path, file) in files {
        let beside = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        match file {
            ChartFile::About(about) => charts.entry(beside).or_default().about = Some(about),
            ChartFile::Values(values) => {
                let chart = charts.entry(beside).or_default();
                chart.values = Some(values);
                chart.values_path = Some(path);
            }
            ChartFile::Template(template) => {
                let folder = folder(path).unwrap_or(beside);
                charts
                    .entry(folder)
                    .or_default()
                    .templates
                    .push((index, path, template.as_ref()));
            }
        }
    }
    // What a library chart of the project defines is there for the others.
    let mut shared: FxHashMap<&str, &[Part]> = FxHashMap::default();
    for chart in charts.values() {
        define(chart, &mut shared);
    }
    let charts: Vec<Chart<'_>> = charts.into_values().collect();
    let rendered: Vec<(Vec<Manifests>, Option<Notice>)> = charts
        .par_iter()
        .filter(|chart| !chart.templates.is_empty())
        .map(|chart| of_chart(chart, &shared))
        .collect();
    let mut manifests = Vec::new();
    let mut notices: Vec<Notice> = charts.iter().filter_map(unreadable_values).collect();
    for (of_chart, notice) in rendered {
        manifests.extend(of_chart);
        notices.extend(notice);
    }
    (manifests, notices)
}

fn define<'a>(chart: &Chart<'a>, into: &mut FxHashMap<&'a str, &'a [Part]>) {
    for (_, _, template) in &chart.templates {
        for (name, parts) in template.iter().flat_map(|template| &template.defines) {
            into.insert(name, parts);
        }
    }
}

fn unreadable_values(chart: &Chart<'_>) -> Option<Notice> {
    let (Some(Err(message)), false) = (chart.values, chart.templates.is_empty()) else {
        return None;
    };
    Some(Notice {
        path: Arc::clone(chart.values_path?),
        message: format!("{message}; its chart is rendered without"),
    })
}

fn of_chart(
    chart: &Chart<'_>,
    shared: &FxHashMap<&str, &[Part]>,
) -> (Vec<Manifests>, Option<Notice>) {
    let mut defines = shared.clone();
    define(chart, &mut defines);
    let root = root(chart);
    let context = Context {
        root: &root,
        defines: &defines,
    };
    let mut manifests = Vec::new();
    let mut failed: Vec<(&Arc<str>, Missing)> = Vec::new();
    let shown = |path: &str| {
        !path.ends_with(".tpl")
            && !path
                .rsplit('/')
                .next()
                .is_some_and(|name| name.starts_with('_'))
    };
    let files = chart.templates.iter().filter(|(_, path, _)| shown(path));
    let total = files.clone().count();
    let is_chart = chart.about.is_some() || chart.values.is_some();
    for (file, path, template) in files {
        let rendered = match is_chart {
            true => documents(*template, &context),
            false => Err("a `Chart.yaml`".to_owned()),
        };
        match rendered {
            Ok(documents) => manifests.push(Manifests {
                file: *file,
                documents,
            }),
            Err(missing) => failed.push((path, missing)),
        }
    }
    let notice = failed.first().map(|(path, missing)| {
        let (number, name) = (failed.len(), path.rsplit('/').next().unwrap_or(path));
        let dir = folder(path).filter(|it| !it.is_empty()).unwrap_or(".");
        Notice {
            path: dir.into(),
            message: format!(
                "{number} of {total} templates of this chart cannot be rendered here, `{name}` for want of {missing}; \
                 `helm template {dir} | adieu check -` checks them"
            ),
        }
    });
    (manifests, notice)
}

fn documents(template: Option<&Template>, context: &Context<'_>) -> Result<Vec<Node>, Missing> {
    let template = template.ok_or("a block that is closed")?;
    let rendered = template::render(&template.parts, context)?;
    let mut documents =
        yaml::parse(&rendered.text).map_err(|error| format!("YAML: {}", error.message))?;
    for document in &mut documents {
        relocate(document, &rendered.lines);
    }
    Ok(documents)
}

/// Puts the lines of the template in the place of those of the rendered text.
fn relocate(node: &mut Node, lines: &[u32]) {
    node.line = lines
        .get(node.line.saturating_sub(1) as usize)
        .copied()
        .unwrap_or(1);
    match &mut node.value {
        yaml::Value::Scalar(_) => {}
        yaml::Value::List(items) => items.iter_mut().for_each(|item| relocate(item, lines)),
        yaml::Value::Map(entries) => {
            for (key, value) in entries {
                relocate(key, lines);
                relocate(value, lines);
            }
        }
    }
}

/// What templates see: the values, and what Helm knows of the release, as a first installation of it has it.
fn root(chart: &Chart<'_>) -> ChartValue {
    let about = |key: &str| {
        chart
            .about
            .and_then(|about| about.get(key))
            .map(ChartValue::from)
            .unwrap_or_default()
    };
    let values = match chart.values {
        Some(Ok(values)) => ChartValue::from(values),
        _ => ChartValue::Map(Vec::new()),
    };
    let text = |text: &str| ChartValue::text(text);
    ChartValue::map(&[
        ("Values", values),
        (
            "Release",
            ChartValue::map(&[
                ("Name", text("release-name")),
                ("Namespace", text("default")),
                ("Service", text("Helm")),
                ("IsInstall", true.into()),
                ("IsUpgrade", false.into()),
                ("Revision", text("1")),
            ]),
        ),
        (
            "Chart",
            ChartValue::map(&[
                ("Name", about("name")),
                ("Version", about("version")),
                ("AppVersion", about("appVersion")),
                ("Type", about("type")),
            ]),
        ),
        (
            "Capabilities",
            ChartValue::map(&[(
                "KubeVersion",
                ChartValue::map(&[
                    ("Version", text("v1.34.0")),
                    ("GitVersion", text("v1.34.0")),
                    ("Major", text("1")),
                    ("Minor", text("34")),
                ]),
            )]),
        ),
        (
            "Template",
            ChartValue::map(&[
                ("BasePath", text("templates")),
                ("Name", text("templates/x.yaml")),
            ]),
        ),
    ])
}
