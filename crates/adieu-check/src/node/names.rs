//! What a name of a JavaScript file stands for: imports, variables and functions.

use rustc_hash::FxHashMap;

use crate::flat_tree::FlatNode;

/// A file, with what its names were given.
pub(crate) struct NodeCode<'t> {
    pub(crate) root: FlatNode<'t>,
    /// The name in the file, the module, and the name there where it is another one.
    imports: FxHashMap<&'t str, &'t str>,
    /// What variables and fields such as `this.server` are given.
    values: FxHashMap<&'t str, Vec<FlatNode<'t>>>,
    functions: FxHashMap<&'t str, FlatNode<'t>>,
}

/// A server, by the library that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Server {
    /// `http.Server`, and what `app.listen()` of express and koa returns.
    Http,
    /// An application of express, koa, polka or hono: `listen` makes its server.
    Application,
    Fastify,
    Nest,
}

impl<'t> NodeCode<'t> {
    pub(crate) fn new(root: FlatNode<'t>) -> NodeCode<'t> {
        let mut code = NodeCode {
            root,
            imports: FxHashMap::default(),
            values: FxHashMap::default(),
            functions: FxHashMap::default(),
        };
        for node in root.below() {
            code.note(node);
        }
        code
    }

    fn note(&mut self, node: FlatNode<'t>) {
        match node.kind() {
            "import_statement" => {
                let Some(source) = node.child("source") else {
                    return;
                };
                for name in node.below().filter(|it| it.is("identifier")) {
                    self.imports.insert(name.text(), literal(source));
                }
            }
            "variable_declarator" => {
                let (Some(name), Some(value)) = (node.child("name"), node.child("value")) else {
                    return;
                };
                if let Some(module) = required(value) {
                    for name in std::iter::once(name).chain(name.below()) {
                        if matches!(
                            name.kind(),
                            "identifier" | "shorthand_property_identifier_pattern"
                        ) {
                            self.imports.insert(name.text(), module);
                        }
                    }
                }
                self.give(name, value);
            }
            "assignment_expression" => {
                if let (Some(left), Some(right)) = (node.child("left"), node.child("right")) {
                    self.give(left, right);
                }
            }
            "public_field_definition" | "field_definition" => {
                if let (Some(name), Some(value)) = (
                    node.child("name").or(node.child("property")),
                    node.child("value"),
                ) {
                    self.give(name, value);
                }
            }
            "function_declaration" | "generator_function_declaration" => {
                if let Some(name) = node.child("name") {
                    self.functions.insert(name.text(), node);
                }
            }
            _ => {}
        }
    }

    fn give(&mut self, name: FlatNode<'t>, value: FlatNode<'t>) {
        if is_function(value) {
            self.functions.insert(name.text(), value);
        }
        self.values.entry(name.text()).or_default().push(value);
    }

    /// The module that a name was imported from, without `node:`.
    pub(crate) fn module(&self, name: &str) -> Option<&'t str> {
        let module = self.imports.get(name).copied()?;
        Some(module.strip_prefix("node:").unwrap_or(module))
    }

    /// The modules that are imported.
    pub(crate) fn modules(&self) -> impl Iterator<Item = &'t str> {
        self.imports.values().copied()
    }

    /// The function behind an expression: itself, or one of this file by its name.
    pub(crate) fn function(&self, node: FlatNode<'t>) -> Option<FlatNode<'t>> {
        if is_function(node) {
            return Some(node);
        }
        match node.kind() {
            "identifier" | "member_expression" => self.functions.get(node.text()).copied(),
            // `stop.bind(null, 'SIGTERM')`.
            "call_expression" => {
                let (object, name) = method(node)?;
                (name == "bind").then(|| self.functions.get(object.text()).copied())?
            }
            _ => None,
        }
    }

    /// What a name was given, where all that it was given is alike.
    pub(crate) fn values(&self, name: &str) -> &[FlatNode<'t>] {
        self.values.get(name).map_or(&[], Vec::as_slice)
    }

    /// The server that an expression is, if it is one.
    pub(crate) fn server(&self, node: FlatNode<'t>) -> Option<Server> {
        self.server_within(node, 8)
    }

    fn server_within(&self, node: FlatNode<'t>, steps: usize) -> Option<Server> {
        let steps = steps.checked_sub(1)?;
        match node.kind() {
            "identifier" | "member_expression" | "property_identifier" => self
                .values(node.text())
                .iter()
                .find_map(|value| self.server_within(*value, steps)),
            "await_expression"
            | "parenthesized_expression"
            | "as_expression"
            | "non_null_expression"
            | "satisfies_expression" => self.server_within(node.first()?, steps),
            "new_expression" => {
                let constructor = node.child("constructor")?;
                let text = constructor.text();
                let module = self.module(text.split('.').next()?);
                match (module?, text) {
                    ("koa" | "hono", _) => Some(Server::Application),
                    ("http" | "https", text) if text.ends_with("Server") => Some(Server::Http),
                    _ => None,
                }
            }
            "call_expression" => self.made(node, steps),
            _ => None,
        }
    }

    fn made(&self, call: FlatNode<'t>, steps: usize) -> Option<Server> {
        let function = callee(call)?;
        if function.is("identifier") {
            let module = self.module(function.text())?;
            return match (module, function.text()) {
                ("express" | "polka" | "restana", _) => Some(Server::Application),
                ("fastify", _) => Some(Server::Fastify),
                ("http" | "https" | "http2", "createServer" | "createSecureServer") => {
                    Some(Server::Http)
                }
                ("@hono/node-server", "serve") => Some(Server::Http),
                _ => None,
            };
        }
        let (object, name) = method(call)?;
        let module = required(object).or_else(|| self.module(object.text()));
        match (module, name) {
            (Some("http" | "https" | "http2"), "createServer" | "createSecureServer") => {
                return Some(Server::Http);
            }
            (Some("restify"), "createServer") => return Some(Server::Http),
            (Some("@nestjs/core"), "create") => return Some(Server::Nest),
            _ => {}
        }
        if name != "listen" && name != "on" && name != "once" {
            return None;
        }
        // `require('http').createServer(app).listen(80)` is a server too.
        match (self.server_within(object, steps)?, name) {
            (Server::Application, "listen") => Some(Server::Http),
            (server, _) => Some(server),
        }
    }
}

/// The text of a string without its quotes.
pub(crate) fn literal<'t>(node: FlatNode<'t>) -> &'t str {
    node.text().trim_matches(['"', '\'', '`'])
}

/// `require('http')`.
fn required<'t>(node: FlatNode<'t>) -> Option<&'t str> {
    let call = node.is("call_expression").then_some(node)?;
    if callee(call)?.text() != "require" {
        return None;
    }
    let module = arguments(call).first().map(|it| literal(*it))?;
    Some(module.strip_prefix("node:").unwrap_or(module))
}

/// What a call calls. The grammar reads `await create<A>()` as a call of `await create`.
pub(crate) fn callee(call: FlatNode<'_>) -> Option<FlatNode<'_>> {
    let function = call.child("function")?;
    match function.kind() {
        "await_expression" => function.first(),
        _ => Some(function),
    }
}

/// A method call, as what it is called on and its name.
pub(crate) fn method<'t>(call: FlatNode<'t>) -> Option<(FlatNode<'t>, &'t str)> {
    let function = callee(call)?;
    if !function.is("member_expression") {
        return None;
    }
    Some((
        function.child("object")?,
        function.child("property")?.text(),
    ))
}

/// The arguments of a call.
pub(crate) fn arguments(call: FlatNode<'_>) -> Vec<FlatNode<'_>> {
    let list = call.child("arguments").filter(|list| list.is("arguments"));
    list.map_or_else(Vec::new, |list| {
        list.children().filter(|it| !it.is("comment")).collect()
    })
}

/// Functions of all kinds.
pub(crate) fn is_function(node: FlatNode<'_>) -> bool {
    matches!(
        node.kind(),
        "arrow_function"
            | "function_expression"
            | "function_declaration"
            | "generator_function"
            | "generator_function_declaration"
            | "method_definition"
    )
}

/// The function around a node.
pub(crate) fn function_of<'t>(node: FlatNode<'t>) -> Option<FlatNode<'t>> {
    node.ancestors().find(|above| is_function(*above))
}

/// Whether a call is `process.exit()`.
pub(crate) fn is_exit(call: FlatNode<'_>) -> bool {
    call.is("call_expression") && callee(call).is_some_and(|it| it.text() == "process.exit")
}
