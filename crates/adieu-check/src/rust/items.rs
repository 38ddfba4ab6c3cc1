//! The items of a file: modules, types, functions.

use std::sync::Arc;

use proc_macro2::Span;
use rustc_hash::FxHashMap;
use syn::{
    Attribute, Fields, FnArg, ImplItem, Item, ItemImpl, ReturnType, Signature, TraitItem, UseTree,
};

use super::bodies::Body;
use super::crates::Crates;
use super::grace;
use super::paths::{ModuleScope, Scopes};
use super::weight;
use crate::callgraph::path::is_internal;
use crate::callgraph::{Class, Extension, FileSummary, FnFlags, Function, Symbol};
use crate::depth::{self, Syntax};
use crate::finding::{Finding, Place};
use crate::role::TestCode;
use crate::rule;
use crate::source::Lines;
use crate::suppress;

/// Reads one Rust file.
pub(crate) fn extract(
    source: &str,
    path: &Arc<str>,
    crates: &Crates,
    tests: TestCode,
) -> Option<FileSummary> {
    let position = crates.position(path)?;
    let mut summary = FileSummary::new(Arc::clone(path), position.module);
    if depth::too_deep(source, Syntax::Rust) {
        summary.findings.push(Finding::new(
            path,
            Place::TOP,
            rule::SYNTAX,
            "is nested too deeply to be checked",
        ));
        return Some(summary);
    }
    if memchr::memmem::find(source.as_bytes(), b"adieu:").is_some() {
        summary.ignores = suppress::read_lines(source, &Lines::new(source), "//");
    }
    let file = match syn::parse_file(source) {
        Ok(file) => file,
        Err(error) => {
            let message = format!("syntax error: {error}");
            summary.findings.push(Finding::new(
                path,
                place(error.span()),
                rule::SYNTAX,
                message,
            ));
            return Some(summary);
        }
    };
    // Also in a comment: then its absence is meant.
    summary.facts.handles_signals = ["SIGTERM", "SignalKind::terminate"]
        .iter()
        .any(|word| memchr::memmem::find(source.as_bytes(), word.as_bytes()).is_some());
    let mut reader = Reader {
        summary,
        scopes: Scopes {
            crates,
            position,
            modules: Vec::new(),
            self_type: None,
            locals: Vec::new(),
        },
        source,
        tests,
        durations: grace::constants(&file.items),
        classes: vec![FxHashMap::default()],
        qualified: String::new(),
    };
    let prefix = format!("@{}", position.module);
    reader.module(&file.items, prefix, tests == TestCode::WholeFile);
    // The library keeps every file it ever parsed on this thread for its spans: let them go.
    let mut summary = reader.summary;
    summary.names.seal();
    drop(file);
    proc_macro2::extra::invalidate_current_thread_spans();
    Some(summary)
}

/// Where a token starts.
pub(crate) fn place(span: Span) -> Place {
    let start = span.start();
    Place {
        line: start.line.max(1) as u32,
        column: start.column as u32 + 1,
    }
}

/// The state of one pass.
pub(crate) struct Reader<'c> {
    pub(crate) summary: FileSummary,
    pub(crate) scopes: Scopes<'c>,
    pub(crate) source: &'c str,
    /// Whether test functions and modules are left alone.
    tests: TestCode,
    /// Constants of the file that are durations, in seconds.
    pub(crate) durations: FxHashMap<String, u64>,
    /// Type names to classes, one map a module.
    classes: Vec<FxHashMap<String, u32>>,
    pub(crate) qualified: String,
}

impl Reader<'_> {
    fn module(&mut self, items: &[Item], prefix: String, is_test: bool) {
        let mut scope = ModuleScope {
            prefix,
            is_test,
            ..ModuleScope::default()
        };
        for item in items {
            if let Some(name) = item_name(item) {
                scope.items.insert(name);
            }
        }
        self.scopes.modules.push(scope);
        for item in items {
            if let Item::Use(item) = item {
                self.use_tree(&item.tree, &mut Vec::new());
            }
        }
        for item in items {
            self.item(item);
        }
        self.scopes.modules.pop();
    }

    /// Whether these attributes mark test code that is left alone.
    fn skips(&self, attrs: &[Attribute]) -> bool {
        self.tests != TestCode::Checked
            && (is_cfg_test(attrs) || attrs.iter().any(is_test_attribute))
    }

    fn in_file_root(&self) -> bool {
        self.scopes.modules.len() == 1
    }

    fn use_tree<'t>(&mut self, tree: &'t UseTree, prefix: &mut Vec<&'t syn::Ident>) {
        match tree {
            UseTree::Path(path) => {
                prefix.push(&path.ident);
                self.use_tree(&path.tree, prefix);
                prefix.pop();
            }
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = prefix.last() {
                    let bound = last.to_string();
                    self.bind_use(prefix, None, bound);
                }
            }
            UseTree::Name(name) => self.bind_use(prefix, Some(&name.ident), name.ident.to_string()),
            UseTree::Rename(rename) => {
                self.bind_use(prefix, Some(&rename.ident), rename.rename.to_string())
            }
            UseTree::Glob(_) => {
                let names: Vec<String> = prefix.iter().map(ToString::to_string).collect();
                if let Some(path) = self.scopes.resolve(names.iter().map(String::as_str))
                    && is_internal(&path)
                {
                    if self.in_file_root() {
                        let star = self.summary.names.add(&path);
                        self.summary.stars.push(star);
                    }
                    if let Some(scope) = self.scopes.modules.last_mut() {
                        scope.takes_in = Some(path);
                    }
                }
            }
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.use_tree(tree, prefix);
                }
            }
        }
    }

    fn bind_use(&mut self, prefix: &[&syn::Ident], last: Option<&syn::Ident>, bound: String) {
        let mut names: Vec<String> = prefix.iter().map(ToString::to_string).collect();
        names.extend(last.map(ToString::to_string));
        if let Some(root) = names.first() {
            self.summary.facts.is_service |= weight::serves(root);
            self.summary.facts.is_service |= names
                .iter()
                .any(|name| matches!(name.as_str(), "TcpListener" | "UnixListener"));
        }
        // `use tokio;` names a crate; a single name must not resolve to itself.
        let path = match names.as_slice() {
            [only] => {
                let crates = self.scopes.crates;
                let name = crates.real_name(self.scopes.position, only);
                match crates.root(name) {
                    Some(root) => format!("@{root}"),
                    None => name.to_owned(),
                }
            }
            _ => match self.scopes.resolve(names.iter().map(String::as_str)) {
                Some(path) => path,
                None => return,
            },
        };
        if self.in_file_root() {
            let name = self.summary.names.add(&path);
            self.summary
                .symbols
                .entry(bound.as_str().into())
                .or_insert(Symbol::Path(name));
        }
        // What an inline module imports can be named through it.
        let inline = self.scopes.modules.last().and_then(|scope| {
            let (_, index) = scope.prefix.split_once('$')?;
            index.parse::<usize>().ok()
        });
        if let Some(class) = inline {
            let name = self.summary.names.add(&path);
            let members = &mut self.summary.classes[class].members;
            members
                .entry(bound.as_str().into())
                .or_insert(Symbol::Path(name));
        }
        if let Some(scope) = self.scopes.modules.last_mut() {
            scope.uses.insert(bound, path);
        }
    }

    fn item(&mut self, item: &Item) {
        match item {
            Item::Fn(item) => {
                let index = self.function(&item.sig, &item.attrs, Some(&item.block));
                self.define(item.sig.ident.to_string(), Symbol::Function(index));
            }
            Item::Struct(item) => {
                let class = self.class(&item.ident.to_string());
                self.fields(class, &item.fields);
            }
            Item::Enum(item) => {
                self.class(&item.ident.to_string());
            }
            Item::Type(item) => {
                if let Some(path) = self.scopes.type_path(&item.ty) {
                    let path = self.summary.names.add(&path);
                    self.define(item.ident.to_string(), Symbol::Path(path));
                }
            }
            Item::Impl(item) => self.implementation(item),
            Item::Trait(item) => {
                let name = item.ident.to_string();
                let class = self.class(&name);
                let own = format!("@{}${class}", self.summary.module);
                let outer_self = self.scopes.self_type.replace(own);
                let outer = self.enter(&name);
                for member in &item.items {
                    if let TraitItem::Fn(method) = member
                        && method.default.is_some()
                    {
                        let index =
                            self.function(&method.sig, &method.attrs, method.default.as_ref());
                        let members = &mut self.summary.classes[class as usize].members;
                        members
                            .insert(method.sig.ident.to_string().into(), Symbol::Function(index));
                    }
                }
                self.qualified.truncate(outer);
                self.scopes.self_type = outer_self;
            }
            Item::Mod(item) => {
                if let Some((_, items)) = &item.content {
                    let name = item.ident.to_string();
                    let is_test = self.skips(&item.attrs)
                        || self.scopes.modules.last().is_some_and(|m| m.is_test);
                    let index = self.summary.classes.len() as u32;
                    self.summary.classes.push(Class::default());
                    self.define(name.clone(), Symbol::Class(index));
                    self.classes.push(FxHashMap::default());
                    let outer = self.enter(&name);
                    self.module(items, format!("@{}${index}", self.summary.module), is_test);
                    self.qualified.truncate(outer);
                    self.classes.pop();
                }
            }
            _ => {}
        }
    }

    fn enter(&mut self, name: &str) -> usize {
        let outer = self.qualified.len();
        if outer > 0 {
            self.qualified.push_str("::");
        }
        self.qualified.push_str(name);
        outer
    }

    fn define(&mut self, name: String, symbol: Symbol) {
        let prefix = self
            .scopes
            .modules
            .last()
            .map_or("", |scope| scope.prefix.as_str());
        match prefix
            .split_once('$')
            .and_then(|(_, index)| index.parse::<usize>().ok())
        {
            Some(class) => {
                self.summary.classes[class]
                    .members
                    .insert(name.into(), symbol);
            }
            None => {
                self.summary.symbols.insert(name.into(), symbol);
            }
        }
    }

    fn class(&mut self, name: &str) -> u32 {
        if let Some(index) = self.classes.last().and_then(|classes| classes.get(name)) {
            return *index;
        }
        let index = self.summary.classes.len() as u32;
        self.summary.classes.push(Class::default());
        if let Some(classes) = self.classes.last_mut() {
            classes.insert(name.to_owned(), index);
        }
        self.define(name.to_owned(), Symbol::Class(index));
        index
    }

    fn fields(&mut self, class: u32, fields: &Fields) {
        for (index, field) in fields.iter().enumerate() {
            if let Some(path) = self.scopes.type_path(&field.ty) {
                let name = field
                    .ident
                    .as_ref()
                    .map_or_else(|| index.to_string(), ToString::to_string);
                let value = self.summary.names.add(&format!("{path}()"));
                self.summary.classes[class as usize]
                    .members
                    .insert(name.into(), Symbol::Path(value));
            }
        }
    }

    fn implementation(&mut self, item: &ItemImpl) {
        let syn::Type::Path(path) = &*item.self_ty else {
            return;
        };
        let Some(name) = path
            .path
            .segments
            .last()
            .map(|segment| segment.ident.to_string())
        else {
            return;
        };
        let local = path.path.get_ident().is_some() || path.path.segments.len() == 1;
        let declared = self
            .scopes
            .modules
            .last()
            .is_some_and(|scope| scope.items.contains(&name));
        // An impl for a type of another module is put together with it when all files are known.
        let class = (local && declared).then(|| self.class(&name));
        let outer_self = self.scopes.self_type.take();
        self.scopes.self_type = match class {
            Some(class) => Some(format!("@{}${class}", self.summary.module)),
            None => self.scopes.type_path(&item.self_ty),
        };
        let of = match self.scopes.self_type.clone() {
            Some(path) if is_internal(&path) => Some(self.summary.names.add(&path)),
            _ => None,
        };
        let base = item
            .trait_
            .as_ref()
            .and_then(|(_, path, _)| self.scopes.syn_path(path));
        let base = base
            .filter(|path| is_internal(path))
            .map(|path| self.summary.names.add(&path));
        let mut added = Vec::new();
        let outer = self.enter(&name);
        for member in &item.items {
            if let ImplItem::Fn(method) = member {
                let index = self.function(&method.sig, &method.attrs, Some(&method.block));
                if let Some(class) = class {
                    let members = &mut self.summary.classes[class as usize].members;
                    let name: Box<str> = method.sig.ident.to_string().into();
                    // An inherent method hides a trait's of the same name.
                    if item.trait_.is_none() {
                        members.insert(name, Symbol::Function(index));
                    } else {
                        members.entry(name).or_insert(Symbol::Function(index));
                    }
                } else {
                    added.push((method.sig.ident.to_string().into(), index));
                }
            }
        }
        if let Some(of) = of.filter(|_| base.is_some() || !added.is_empty()) {
            self.summary.extensions.push(Extension {
                of,
                members: added,
                base,
            });
        }
        self.qualified.truncate(outer);
        self.scopes.self_type = outer_self;
    }

    fn function(
        &mut self,
        sig: &Signature,
        attrs: &[Attribute],
        block: Option<&syn::Block>,
    ) -> u32 {
        let mut flags = FnFlags::default();
        if sig.asyncness.is_some() {
            flags.set(FnFlags::ASYNC);
        }
        let name = sig.ident.to_string();
        if name == "main" {
            flags.set(FnFlags::ENTRY);
        }
        let in_test = self
            .scopes
            .modules
            .last()
            .is_some_and(|scope| scope.is_test);
        if in_test || self.skips(attrs) {
            flags.set(FnFlags::TEST);
        }
        // The `main` of a test does not run a service.
        let is_test = flags.has(FnFlags::TEST);
        if !is_test
            && attrs.iter().any(|attr| {
                attr.path()
                    .segments
                    .last()
                    .is_some_and(|last| last.ident == "main")
            })
        {
            self.summary.facts.serves = true;
        }
        let returns = match &sig.output {
            ReturnType::Type(_, ty) => self.scopes.type_path(ty),
            ReturnType::Default => None,
        };
        let outer = self.enter(&name);
        let index = self.add_function(flags, returns.as_deref());
        let mut parameters = FxHashMap::default();
        for input in &sig.inputs {
            if let FnArg::Typed(typed) = input
                && let syn::Pat::Ident(ident) = &*typed.pat
            {
                let value = self
                    .scopes
                    .type_path(&typed.ty)
                    .map(|path| format!("{path}()"));
                parameters.insert(ident.ident.to_string(), value);
            }
        }
        if let Some(block) = block {
            self.scopes.locals.push(parameters);
            Body::read(self, index, sig.asyncness.is_some(), block);
            self.scopes.locals.pop();
        }
        self.qualified.truncate(outer);
        index
    }

    /// A function under the current name.
    pub(crate) fn add_function(&mut self, flags: FnFlags, returns: Option<&str>) -> u32 {
        let index = self.summary.functions.len() as u32;
        let returns = returns.map(|returns| self.summary.names.add(returns));
        self.summary.functions.push(Function {
            name: self.qualified.as_str().into(),
            flags,
            returns,
            calls: Vec::new(),
            bare_cleanups: Vec::new(),
            in_place_save: None,
        });
        index
    }

    /// A function inside another one.
    pub(crate) fn nested(&mut self, item: &syn::ItemFn) {
        let index = self.function(&item.sig, &item.attrs, Some(&item.block));
        let path = format!("@{}#{index}", self.summary.module);
        if let Some(block) = self.scopes.locals.last_mut() {
            block.insert(item.sig.ident.to_string(), Some(path));
        }
    }

    /// A `use` inside a body.
    pub(crate) fn nested_use(&mut self, item: &syn::ItemUse) {
        self.scopes.modules.push(ModuleScope {
            prefix: String::new(),
            ..ModuleScope::default()
        });
        self.use_tree(&item.tree, &mut Vec::new());
        let scope = self.scopes.modules.pop().unwrap_or_default();
        if let Some(block) = self.scopes.locals.last_mut() {
            block.extend(
                scope
                    .uses
                    .into_iter()
                    .map(|(name, path)| (name, Some(path))),
            );
        }
    }
}

fn item_name(item: &Item) -> Option<String> {
    Some(match item {
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Mod(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Const(item) => item.ident.to_string(),
        Item::Static(item) => item.ident.to_string(),
        _ => return None,
    })
}

fn is_cfg_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("cfg")
            && matches!(&attr.meta, syn::Meta::List(list) if list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test"))
    })
}

fn is_test_attribute(attr: &Attribute) -> bool {
    attr.path()
        .segments
        .last()
        .is_some_and(|last| last.ident == "test" || last.ident == "bench")
}
