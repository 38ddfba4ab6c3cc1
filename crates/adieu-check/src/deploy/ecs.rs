//! Task definitions of Amazon ECS.

use super::launch::{ECS, FARGATE};
use super::program::{HostedProgram, ImageOf};
use super::yaml::{self, Node, YamlError};

/// Whether a text is a task definition, before it is parsed.
pub(crate) fn is_one(text: &str) -> bool {
    text.contains("\"containerDefinitions\"")
}

pub(crate) fn parse(text: &str) -> Result<Vec<HostedProgram>, YamlError> {
    // JSON is YAML, but for tabs.
    let documents = yaml::parse(&text.replace('\t', " "))?;
    let Some(document) = documents.first() else {
        return Ok(Vec::new());
    };
    // As it is registered, or as the command line describes it.
    let task = document
        .get("taskDefinition")
        .filter(|it| !it.entries().is_empty())
        .unwrap_or(document);
    let is_fargate = ["requiresCompatibilities", "compatibilities"]
        .iter()
        .filter_map(|key| task.get(key))
        .any(|kinds| {
            kinds
                .items()
                .iter()
                .any(|kind| kind.text() == Some("FARGATE"))
        });
    let platform = if is_fargate { &FARGATE } else { &ECS };
    let containers = task
        .get("containerDefinitions")
        .map(Node::items)
        .unwrap_or_default();
    Ok(containers
        .iter()
        .filter(|container| container.get("name").is_some())
        .map(|container| {
            let name = container
                .get("name")
                .and_then(Node::text)
                .unwrap_or_default();
            let words = |key: &str| {
                container
                    .get(key)
                    .map(Node::words)
                    .filter(|it| !it.is_empty())
            };
            HostedProgram {
                image: container
                    .get("image")
                    .and_then(Node::text)
                    .map_or(ImageOf::None, |name| ImageOf::Named(name.to_owned())),
                entrypoint: words("entryPoint"),
                command: words("command"),
                variables: variables(container),
                wait: container
                    .get("stopTimeout")
                    .map(|said| (said.number(), said.line)),
                ..HostedProgram::new(platform, name, container.line)
            }
        })
        .collect())
}

fn variables(container: &Node) -> Vec<(String, String, u32)> {
    let items = container
        .get("environment")
        .map(Node::items)
        .unwrap_or_default();
    items
        .iter()
        .filter_map(|item| {
            let name = item.get("name")?.text()?.to_owned();
            Some((name, item.get("value")?.text()?.to_owned(), item.line))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn containers_are_read_with_their_lines() {
        let text = "{\n\t\"containerDefinitions\": [\n\t\t{\"name\": \"web\", \"image\": \"shop:1\",\n\t\t \"stopTimeout\": 90,\n\t\t \"command\": [\"uvicorn\", \"app:app\"]}\n\t]\n}\n";
        let programs = parse(text).expect("JSON");
        assert_eq!(programs.len(), 1);
        assert_eq!(
            (programs[0].line, programs[0].wait),
            (3, Some((Some(90), 4)))
        );
        assert_eq!(
            programs[0].command.as_deref(),
            Some(&["uvicorn".to_owned(), "app:app".to_owned()][..])
        );
    }
}
