//! The instructions of a Dockerfile, as far as they end up in the image.

/// One instruction, its continued lines joined.
#[derive(Debug, Clone)]
pub(crate) struct Instruction {
    pub(crate) line: u32,
    /// Where its arguments start and end in the file.
    pub(crate) span: (usize, usize),
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// The text it is given below itself: `RUN <<END`.
    pub(crate) document: String,
}

/// A stage: what it starts from, what it is called, what it does.
#[derive(Debug, Default)]
struct Stage {
    base: String,
    name: Option<String>,
    instructions: Vec<Instruction>,
}

/// The instructions of the last stage, which is what runs, behind those of the stages it goes on
/// from.
pub(crate) fn last(text: &str) -> Vec<Instruction> {
    let mut stages = vec![Stage::default()];
    for instruction in all(text) {
        if instruction.name == "FROM" {
            stages.push(Stage::from(&instruction));
        }
        if let Some(stage) = stages.last_mut() {
            stage.instructions.push(instruction);
        }
    }
    let mut parts = Vec::new();
    let mut next = stages.pop();
    while let Some(stage) = next {
        // A stage knows those before it, by the last of their name.
        let earlier = stages
            .iter()
            .rposition(|other| other.name.as_deref() == Some(&*stage.base));
        parts.push(stage.instructions);
        next = earlier.and_then(|at| {
            stages.truncate(at + 1);
            stages.pop()
        });
    }
    parts.into_iter().rev().flatten().collect()
}

impl Stage {
    fn from(instruction: &Instruction) -> Stage {
        let lower = instruction.arguments.to_ascii_lowercase();
        let words: Vec<&str> = lower
            .split_whitespace()
            .filter(|word| !word.starts_with("--"))
            .collect();
        let name = match *words {
            [_, "as", name] => Some(name.to_owned()),
            _ => None,
        };
        Stage {
            base: words.first().copied().unwrap_or_default().to_owned(),
            name,
            instructions: Vec::new(),
        }
    }
}

fn all(text: &str) -> Vec<Instruction> {
    let mut all: Vec<Instruction> = Vec::new();
    let mut offset = 0;
    let mut current: Option<Instruction> = None;
    let mut document: Option<String> = None;
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let start = offset;
        offset += line.len();
        let trimmed = line.trim();
        if let Some(end) = &document {
            if trimmed == end {
                document = None;
            } else if let Some(instruction) = all.last_mut() {
                instruction.document.push_str(line);
            }
            continue;
        }
        if trimmed.starts_with('#') || trimmed.is_empty() && current.is_none() {
            continue;
        }
        let continues = trimmed.ends_with('\\');
        let body = trimmed.strip_suffix('\\').unwrap_or(trimmed);
        match &mut current {
            Some(instruction) => {
                instruction.arguments.push(' ');
                instruction.arguments.push_str(body);
                instruction.span.1 = start + line.trim_end().len();
            }
            None => {
                let (name, arguments) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
                let from = start + line.find(name).unwrap_or(0) + name.len();
                let lead = line
                    .get(from - start..)
                    .map_or(0, |rest| rest.len() - rest.trim_start().len());
                current = Some(Instruction {
                    line: index as u32 + 1,
                    span: (from + lead, start + line.trim_end().len()),
                    name: name.to_ascii_uppercase(),
                    arguments: arguments.trim().to_owned(),
                    document: String::new(),
                });
            }
        }
        if !continues && let Some(instruction) = current.take() {
            if matches!(instruction.name.as_str(), "RUN" | "COPY" | "ADD") {
                document = document_end(&instruction.arguments);
            }
            all.push(instruction);
        }
    }
    all.extend(current);
    all
}

/// The line that ends the text below an instruction. Its mark is a word of its own: a shift of
/// bits is none.
fn document_end(arguments: &str) -> Option<String> {
    arguments.split_whitespace().find_map(|word| {
        let mark = word
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .strip_prefix("<<")?;
        let mark = mark.trim_start_matches('-').trim_matches(['"', '\'']);
        let end: String = mark
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let is_word = end.starts_with(|c: char| c.is_alphabetic() || c == '_');
        is_word.then_some(end)
    })
}

#[cfg(test)]
mod tests {
    use super::last;

    fn names(text: &str) -> Vec<String> {
        let instructions = last(text).into_iter();
        instructions
            .map(|it| format!("{} {}", it.name, it.arguments))
            .collect()
    }

    #[test]
    fn a_stage_goes_on_from_the_one_it_names() {
        let text = "FROM a AS base\nENV X=1\nFROM b AS build\nRUN make\nFROM --platform=x Base\nCMD [\"y\"]\n";
        assert_eq!(
            names(text),
            [
                "FROM a AS base",
                "ENV X=1",
                "FROM --platform=x Base",
                "CMD [\"y\"]"
            ]
        );
    }

    #[test]
    fn a_stage_that_names_itself_ends() {
        assert_eq!(names("FROM a AS a\nRUN x\n"), ["FROM a AS a", "RUN x"]);
    }

    #[test]
    fn a_shift_is_no_document() {
        let text = "FROM a\nRUN echo $((1<<3)) && python -c '1 << x'\nCMD [\"y\"]\n";
        assert_eq!(names(text).len(), 3);
    }
}
