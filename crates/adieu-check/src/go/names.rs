//! What a name of a Go file stands for: packages, variables, fields and types.

use rustc_hash::FxHashMap;

use crate::flat_tree::FlatNode;

/// A file, with the names of the packages it imports and of what it declares.
pub(crate) struct GoCode<'t> {
    pub(crate) root: FlatNode<'t>,
    /// The name in the file, and the path of the package.
    imports: FxHashMap<&'t str, &'t str>,
    /// Fields of structs of this file and the source of their type; nothing where two differ.
    fields: FxHashMap<&'t str, Option<&'t str>>,
    /// Functions of this file and the source of what they return.
    results: FxHashMap<&'t str, &'t str>,
}

/// Where a variable got what it holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Definition<'t> {
    /// The name that is defined.
    pub(crate) name: FlatNode<'t>,
    /// What is assigned, where there is one expression for it.
    pub(crate) value: Option<FlatNode<'t>>,
    /// The type as declared.
    declared: Option<&'t str>,
}

impl<'t> GoCode<'t> {
    pub(crate) fn new(root: FlatNode<'t>) -> GoCode<'t> {
        let mut code = GoCode {
            root,
            imports: FxHashMap::default(),
            fields: FxHashMap::default(),
            results: FxHashMap::default(),
        };
        for node in root.below() {
            match node.kind() {
                "import_spec" => code.import(node),
                "field_declaration" => code.field(node),
                "function_declaration" => {
                    if let (Some(name), Some(result)) = (node.child("name"), node.child("result")) {
                        code.results.insert(name.text(), result.text());
                    }
                }
                _ => {}
            }
        }
        code
    }

    fn import(&mut self, spec: FlatNode<'t>) {
        let Some(path) = spec.child("path") else {
            return;
        };
        let path = path.text().trim_matches(['"', '`']);
        let name = match spec.child("name") {
            Some(name) => name.text(),
            None => default_name(path),
        };
        self.imports.insert(name, path);
    }

    fn field(&mut self, field: FlatNode<'t>) {
        let Some(kind) = field.child("type").map(|it| it.text()) else {
            return;
        };
        let names = field
            .children()
            .filter(|child| child.is("field_identifier"));
        for name in names {
            self.fields
                .entry(name.text())
                .and_modify(|known| *known = known.filter(|known| *known == kind))
                .or_insert(Some(kind));
        }
    }

    /// Whether a package whose path has one of these parts is imported.
    pub(crate) fn imports_any(&self, parts: &[&str]) -> bool {
        let mut paths = self.imports.values();
        paths.any(|path| parts.iter().any(|part| path.contains(part)))
    }

    /// The package and the name of what an expression such as `http.ListenAndServe` names.
    pub(crate) fn qualified(&self, node: FlatNode<'t>) -> Option<(&'t str, &'t str)> {
        let (operand, field) = selector(node)?;
        let path = self.imports.get(operand.text()).copied()?;
        operand.is("identifier").then(|| (path, field.text()))
    }

    /// What a call calls, where that is a function of a package.
    pub(crate) fn called(&self, call: FlatNode<'t>) -> Option<(&'t str, &'t str)> {
        self.qualified(call.child("function")?)
    }

    /// Whether this calls a function of this package.
    pub(crate) fn calls(&self, call: FlatNode<'t>, package: &str, names: &[&str]) -> bool {
        call.is("call_expression")
            && self
                .called(call)
                .is_some_and(|(path, name)| path == package && names.contains(&name))
    }

    /// The last definition of a variable before this use of it, in the functions around it or at the top of the file.
    /// None where it may have been given another value in a branch.
    pub(crate) fn definition(&self, usage: FlatNode<'t>) -> Option<Definition<'t>> {
        let name = usage.text();
        for scope in usage.ancestors().filter(|node| is_function(*node)) {
            let mut last: Option<Definition<'t>> = None;
            let before = scope
                .below()
                .take_while(|node| node.start() < usage.start());
            for node in before {
                let Some(definition) = defined(node, name) else {
                    continue;
                };
                if is_in_other_function(node, usage) {
                    continue;
                }
                let block = node.ancestors().find(|above| is_scope(*above));
                if block.is_some_and(|block| block.holds(usage)) {
                    last = Some(definition);
                } else if node.is("assignment_statement") {
                    // Another value on some way here.
                    last = None;
                }
            }
            if last.is_some() {
                return last;
            }
        }
        let top = self
            .root
            .children()
            .filter(|node| node.is("var_declaration"));
        top.flat_map(FlatNode::below)
            .find_map(|node| defined(node, name))
    }

    /// Whether a type as it is written is this one, of any major version of its package.
    fn is_type(&self, text: &str, package: &str, name: &str) -> bool {
        let text = text.trim_start_matches(['*', '&']);
        text.split_once('.').is_some_and(|(alias, last)| {
            let path = self.imports.get(alias);
            let rest = path.and_then(|path| path.strip_prefix(package));
            last == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("/v"))
        })
    }

    /// Whether this is a value of this type, such as `http.Server`, or a pointer to one.
    pub(crate) fn has_type(&self, node: FlatNode<'t>, package: &str, name: &str) -> bool {
        let is_meant = |text: &str| self.is_type(text, package, name);
        match node.kind() {
            "identifier" => {
                let Some(definition) = self.definition(node) else {
                    return false;
                };
                if let Some(declared) = definition.declared {
                    return is_meant(declared);
                }
                definition
                    .value
                    // One step: a variable that holds what another one holds is rare.
                    .filter(|value| !value.is("identifier"))
                    .is_some_and(|value| self.has_type(value, package, name))
            }
            "selector_expression" => selector(node)
                .and_then(|(_, field)| *self.fields.get(field.text())?)
                .is_some_and(is_meant),
            "unary_expression" | "parenthesized_expression" => node
                .first()
                .is_some_and(|inner| self.has_type(inner, package, name)),
            "composite_literal" => node.child("type").is_some_and(|it| is_meant(it.text())),
            "call_expression" => {
                let Some(function) = node.child("function") else {
                    return false;
                };
                if function.text() == "new" {
                    let first = node.child("arguments").and_then(FlatNode::first);
                    return first.is_some_and(|it| is_meant(it.text()));
                }
                self.results
                    .get(function.text())
                    .is_some_and(|result| is_meant(result))
            }
            _ => false,
        }
    }

    /// Names of fields whose type is this one.
    pub(crate) fn fields_of_type(&self, package: &str, name: &str) -> Vec<String> {
        let is_meant = |text: &str| self.is_type(text, package, name);
        let fields = self.fields.iter();
        fields
            .filter(|(_, kind)| kind.is_some_and(is_meant))
            .map(|(field, _)| (*field).to_owned())
            .collect()
    }
}

/// `a.b` as `a` and `b`.
pub(crate) fn selector(node: FlatNode<'_>) -> Option<(FlatNode<'_>, FlatNode<'_>)> {
    node.is("selector_expression")
        .then(|| Some((node.child("operand")?, node.child("field")?)))
        .flatten()
}

/// A method call, as what it is called on and its name.
pub(crate) fn method<'t>(call: FlatNode<'t>) -> Option<(FlatNode<'t>, &'t str)> {
    let (operand, field) = selector(call.child("function")?)?;
    Some((operand, field.text()))
}

/// The arguments of a call.
pub(crate) fn arguments(call: FlatNode<'_>) -> Vec<FlatNode<'_>> {
    let list = call.child("arguments");
    list.map_or_else(Vec::new, |list| {
        list.children().filter(|it| !it.is("comment")).collect()
    })
}

/// The last name of `s.server` or `server`.
pub(crate) fn last_name<'t>(node: FlatNode<'t>) -> Option<&'t str> {
    match node.kind() {
        "identifier" => Some(node.text()),
        _ => selector(node).map(|(_, field)| field.text()),
    }
}

/// Functions, methods and function literals.
pub(crate) fn is_function(node: FlatNode<'_>) -> bool {
    matches!(
        node.kind(),
        "function_declaration" | "method_declaration" | "func_literal"
    )
}

/// The function around a node.
pub(crate) fn function_of<'t>(node: FlatNode<'t>) -> Option<FlatNode<'t>> {
    node.ancestors().find(|above| is_function(*above))
}

/// The statement that a node is part of, as a child of its list.
pub(crate) fn statement_of<'t>(node: FlatNode<'t>) -> Option<FlatNode<'t>> {
    std::iter::once(node).chain(node.ancestors()).find(|above| {
        above
            .parent()
            .is_some_and(|parent| parent.is("statement_list"))
    })
}

fn is_scope(node: FlatNode<'_>) -> bool {
    is_function(node)
        || matches!(
            node.kind(),
            "block"
                | "if_statement"
                | "for_statement"
                | "expression_case"
                | "type_case"
                | "default_case"
                | "communication_case"
                | "expression_switch_statement"
                | "type_switch_statement"
                | "source_file"
        )
}

/// Whether a definition stands in a function that the use is not part of.
fn is_in_other_function(definition: FlatNode<'_>, usage: FlatNode<'_>) -> bool {
    definition
        .ancestors()
        .any(|above| is_function(above) && !above.holds(usage))
}

/// The definition that a statement or a declaration gives a name.
fn defined<'t>(node: FlatNode<'t>, name: &str) -> Option<Definition<'t>> {
    match node.kind() {
        "short_var_declaration" | "assignment_statement" => {
            let left = node.child("left")?;
            let at = left.children().position(|it| it.text() == name)?;
            let right: Vec<FlatNode<'t>> = node.child("right")?.children().collect();
            Some(Definition {
                name: left.children().nth(at)?,
                value: right.get(at).or(right.first()).copied(),
                declared: None,
            })
        }
        "var_spec" | "const_spec" => {
            let found = node
                .children()
                .find(|it| it.is("identifier") && it.text() == name)?;
            let value = node.child("value").and_then(FlatNode::first);
            Some(Definition {
                name: found,
                value,
                declared: node.child("type").map(FlatNode::text),
            })
        }
        "parameter_declaration" => {
            let found = node
                .children()
                .find(|it| it.is("identifier") && it.text() == name)?;
            Some(Definition {
                name: found,
                value: None,
                declared: node.child("type").map(FlatNode::text),
            })
        }
        "range_clause" | "receive_statement" => {
            let left = node.child("left")?;
            let found = left.children().find(|it| it.text() == name)?;
            Some(Definition {
                name: found,
                value: None,
                declared: None,
            })
        }
        _ => None,
    }
}

/// What a package is called where its import gives it no name: `v4` and `go-` are not part of it.
fn default_name(path: &str) -> &str {
    let mut parts = path.rsplit('/');
    let mut last = parts.next().unwrap_or(path);
    let is_version = |part: &str| {
        part.strip_prefix('v')
            .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    if is_version(last) {
        last = parts.next().unwrap_or(last);
    }
    let last = last.split_once(".v").map_or(last, |(name, _)| name);
    last.strip_prefix("go-").unwrap_or(last)
}
