//! Follows paths to what they name, once all files are known.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::modules::{ModuleId, Modules};
use super::mro::{self, Ancestor};
use super::summary::{FileSummary, FnFlags, Function, Symbol};

/// Chains of re-exports and annotations longer than this are a cycle.
const LONGEST_CHAIN: u32 = 24;

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Entity {
    Module(ModuleId),
    /// A function, by its number over all summaries.
    Function(u32),
    Class(u32),
    Instance(u32),
    /// `super()` in that class.
    Super(u32),
    /// An async function's unawaited result.
    Coroutine(u32),
    /// Outside the project, by its canonical name.
    External(Arc<str>),
    Unknown,
}

/// The canonical name of an outside path, or nothing when it leads nowhere known.
pub(crate) type Canonicalize = fn(&str) -> Option<String>;

/// All summaries with the tables to move between them.
pub(crate) struct Linker<'a> {
    summaries: &'a [FileSummary],
    modules: &'a Modules,
    canonicalize: Canonicalize,
    /// Module to the summaries that make it up.
    of_module: Arc<FxHashMap<ModuleId, Arc<[u32]>>>,
    /// First global number of each summary's functions and classes.
    first_function: Arc<[u32]>,
    first_class: Arc<[u32]>,
    /// By the number of the function.
    flags: Arc<[FnFlags]>,
    /// Functions of a class that stand in other files.
    extended: Arc<FxHashMap<(u32, Box<str>), u32>>,
    /// Traits whose default methods a class has, by paths.
    extended_bases: Arc<FxHashMap<u32, Vec<Box<str>>>>,
    /// The subclass of a class that has only one.
    only_subclass: Arc<FxHashMap<u32, u32>>,
    known: FxHashMap<Box<str>, Entity>,
    /// Where a name was looked for behind a star in vain, or still is. Modules that take in each
    /// other have more ways between them than anyone could try.
    asked: FxHashSet<(ModuleId, Box<str>)>,
    /// How many stars the search stands behind.
    stars: u32,
}

/// All functions, in the order of their numbers.
fn functions_of(summaries: &[FileSummary]) -> impl Iterator<Item = &Function> {
    summaries.iter().flat_map(|summary| &summary.functions)
}

impl<'a> Linker<'a> {
    pub(crate) fn new(
        summaries: &'a [FileSummary],
        modules: &'a Modules,
        canonicalize: Canonicalize,
    ) -> Linker<'a> {
        let mut of_module: FxHashMap<ModuleId, Vec<u32>> = FxHashMap::default();
        let (mut first_function, mut first_class) = (Vec::new(), Vec::new());
        let (mut functions, mut classes) = (0, 0);
        for (index, summary) in summaries.iter().enumerate() {
            of_module
                .entry(summary.module)
                .or_default()
                .push(index as u32);
            first_function.push(functions);
            first_class.push(classes);
            functions += summary.functions.len() as u32;
            classes += summary.classes.len() as u32;
        }
        first_function.push(functions);
        first_class.push(classes);
        let of_module = of_module
            .into_iter()
            .map(|(module, summaries)| (module, summaries.into()));
        Linker {
            summaries,
            modules,
            canonicalize,
            of_module: Arc::new(of_module.collect()),
            first_function: first_function.into(),
            first_class: first_class.into(),
            flags: functions_of(summaries)
                .map(|function| function.flags)
                .collect(),
            extended: Arc::default(),
            extended_bases: Arc::default(),
            only_subclass: Arc::default(),
            known: FxHashMap::default(),
            asked: FxHashSet::default(),
            stars: 0,
        }
    }

    /// Finds what the only subclass puts in the place of methods without a body of their own.
    ///
    /// Only classes that have such methods are asked for, by their names: few bases have to be followed.
    fn find_overrides(&mut self) {
        let mut open: FxHashMap<&str, Vec<u32>> = FxHashMap::default();
        for (index, summary) in self.summaries.iter().enumerate() {
            let is_open = |class: u32| {
                let members = summary.classes[class as usize].members.values();
                members.into_iter().any(|member| {
                    matches!(member, Symbol::Function(at) if summary.functions[*at as usize].flags.has(FnFlags::OPAQUE))
                })
            };
            for (name, symbol) in &summary.symbols {
                if let Symbol::Class(class) = symbol
                    && is_open(*class)
                {
                    open.entry(name)
                        .or_default()
                        .push(self.first_class[index] + class);
                }
            }
        }
        let mut subclasses: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        for (index, summary) in self.summaries.iter().enumerate() {
            for (at, class) in summary.classes.iter().enumerate() {
                for base in &class.bases {
                    let path = summary.names.get(*base);
                    let name = path.rsplit('.').next().unwrap_or(path);
                    if !open.contains_key(name) {
                        continue;
                    }
                    if let Entity::Class(base) = self.resolve(path) {
                        subclasses
                            .entry(base)
                            .or_default()
                            .push(self.first_class[index] + at as u32);
                    }
                }
            }
        }
        let only =
            subclasses
                .into_iter()
                .filter_map(|(base, subclasses)| match subclasses.as_slice() {
                    [only] => Some((base, *only)),
                    _ => None,
                });
        self.only_subclass = Arc::new(only.collect());
    }

    /// What stands in the place of a method without a body of its own.
    fn overridden(&mut self, class: u32, name: &str, found: Entity, depth: u32) -> Entity {
        match (&found, self.only_subclass.get(&class).copied()) {
            (Entity::Function(function), Some(subclass))
                if self.flags(*function).has(FnFlags::OPAQUE) =>
            {
                let (summary, index) = self.class_summary(subclass);
                match self.summaries[summary].classes[index].members.get(name) {
                    Some(symbol) => self.symbol(summary, *symbol, depth + 1),
                    None => found,
                }
            }
            _ => found,
        }
    }

    /// Gives types what `impl` blocks of other files add to them, and abstract methods their bodies.
    pub(crate) fn extend(mut self) -> Linker<'a> {
        let mut extended: FxHashMap<(u32, Box<str>), u32> = FxHashMap::default();
        let mut bases: FxHashMap<u32, Vec<Box<str>>> = FxHashMap::default();
        for (index, summary) in self.summaries.iter().enumerate() {
            for extension in &summary.extensions {
                let Entity::Class(class) = self.resolve(summary.names.get(extension.of)) else {
                    continue;
                };
                for (name, function) in &extension.members {
                    let number = self.function_number(index, *function as usize);
                    extended.entry((class, name.clone())).or_insert(number);
                }
                let base = extension.base.map(|base| summary.names.get(base).into());
                bases.entry(class).or_default().extend(base);
            }
        }
        self.find_overrides();
        self.extended = Arc::new(extended);
        self.extended_bases = Arc::new(bases);
        self.known.clear();
        self
    }

    /// A copy of the tables with an empty memory, for another thread.
    pub(crate) fn fresh(&self) -> Linker<'a> {
        Linker {
            summaries: self.summaries,
            modules: self.modules,
            canonicalize: self.canonicalize,
            of_module: Arc::clone(&self.of_module),
            first_function: Arc::clone(&self.first_function),
            first_class: Arc::clone(&self.first_class),
            flags: Arc::clone(&self.flags),
            extended: Arc::clone(&self.extended),
            extended_bases: Arc::clone(&self.extended_bases),
            only_subclass: Arc::clone(&self.only_subclass),
            known: FxHashMap::default(),
            asked: FxHashSet::default(),
            stars: 0,
        }
    }

    pub(crate) fn function_count(&self) -> usize {
        self.first_function.last().copied().unwrap_or(0) as usize
    }

    pub(crate) fn function_number(&self, summary: usize, index: usize) -> u32 {
        self.first_function[summary] + index as u32
    }

    pub(crate) fn flags(&self, function: u32) -> FnFlags {
        self.flags[function as usize]
    }

    /// The index of the summary a function stands in.
    pub(crate) fn summary_of(&self, number: u32) -> usize {
        self.first_function
            .partition_point(|first| *first <= number)
            .saturating_sub(1)
    }

    /// The summary a function stands in, and the function.
    pub(crate) fn function(&self, number: u32) -> (&'a FileSummary, &'a Function) {
        let summary = self.summary_of(number);
        let summary_ref = &self.summaries[summary];
        (
            summary_ref,
            &summary_ref.functions[(number - self.first_function[summary]) as usize],
        )
    }

    fn class_summary(&self, number: u32) -> (usize, usize) {
        let summary = self.first_class.partition_point(|first| *first <= number) - 1;
        (summary, (number - self.first_class[summary]) as usize)
    }

    /// What a path names.
    pub(crate) fn resolve(&mut self, path: &str) -> Entity {
        self.follow(path, 0)
    }

    fn follow(&mut self, path: &str, depth: u32) -> Entity {
        if let Some(entity) = self.known.get(path) {
            return entity.clone();
        }
        if depth > LONGEST_CHAIN {
            return Entity::Unknown;
        }
        let entity = self.step(path, depth);
        // An answer cut short by the depth of one chain must not stand for all others.
        if depth == 0 || entity != Entity::Unknown {
            self.known.insert(path.into(), entity.clone());
        }
        entity
    }

    fn step(&mut self, path: &str, depth: u32) -> Entity {
        if let Some(callee) = path.strip_suffix("()") {
            return match self.follow(callee, depth + 1) {
                Entity::Class(class) => Entity::Instance(class),
                Entity::Instance(_) => self.follow(&format!("{callee}.__call__()"), depth + 1),
                Entity::Function(function) => self.result(function, depth),
                Entity::External(outside) => self.outside(&format!("{outside}()")),
                _ => Entity::Unknown,
            };
        }
        if let Some(future) = path.strip_suffix('!') {
            return match self.follow(future, depth + 1) {
                Entity::Coroutine(function) => self.annotated(function, depth),
                Entity::External(outside) => self.outside(&format!("{outside}!")),
                _ => Entity::Unknown,
            };
        }
        match path.rsplit_once('.') {
            Some((value, name)) => {
                let value = self.follow(value, depth + 1);
                self.attribute(value, name, depth)
            }
            None => self.root(path),
        }
    }

    /// `@7`, `@7#3`, `@7$2`, `@7$2~`, or the first segment of an outside name.
    fn root(&self, path: &str) -> Entity {
        let Some(rest) = path.strip_prefix('@') else {
            return self.outside(path);
        };
        let (rest, is_super) = match rest.strip_suffix('~') {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let split = rest.find(['#', '$']);
        let (module, item) = rest.split_at(split.unwrap_or(rest.len()));
        let Ok(module) = module.parse::<ModuleId>() else {
            return Entity::Unknown;
        };
        if item.is_empty() {
            return Entity::Module(module);
        }
        let Ok(index) = item[1..].parse::<u32>() else {
            return Entity::Unknown;
        };
        let Some([summary]) = self.of_module.get(&module).map(|summaries| &**summaries) else {
            return Entity::Unknown;
        };
        let summary = *summary as usize;
        match (item.starts_with('#'), is_super) {
            (true, _) => Entity::Function(self.first_function[summary] + index),
            (false, true) => Entity::Super(self.first_class[summary] + index),
            (false, false) => Entity::Class(self.first_class[summary] + index),
        }
    }

    fn outside(&self, path: &str) -> Entity {
        (self.canonicalize)(path).map_or(Entity::Unknown, |path| Entity::External(path.into()))
    }

    fn attribute(&mut self, value: Entity, name: &str, depth: u32) -> Entity {
        if let Some(read) = name.strip_prefix('?') {
            return self.property(&value, read, depth);
        }
        let found = match value {
            Entity::Module(module) => return self.in_module(module, name, depth),
            Entity::Class(class) => self.member(class, name, false, depth),
            Entity::Instance(class) => match name {
                // Entering a context gives the object itself, near enough always.
                "__enter__" | "__aenter__"
                    if self.member(class, name, true, depth) != Entity::Unknown =>
                {
                    return Entity::Class(class);
                }
                "__entered__" => self.member(class, "__enter__", true, depth),
                _ => {
                    let found = self.member(class, name, true, depth);
                    self.overridden(class, name, found, depth)
                }
            },
            Entity::Super(class) => self.inherited(class, name, depth),
            Entity::External(outside) => return self.outside(&format!("{outside}.{name}")),
            _ => Entity::Unknown,
        };
        match found {
            Entity::Function(function) if self.flags(function).has(FnFlags::PROPERTY) => {
                self.annotated(function, depth)
            }
            other => other,
        }
    }

    /// The function that reading an attribute runs.
    fn property(&mut self, value: &Entity, name: &str, depth: u32) -> Entity {
        let Entity::Instance(class) = *value else {
            return Entity::Unknown;
        };
        match self.member(class, name, true, depth) {
            Entity::Function(function) if self.flags(function).has(FnFlags::PROPERTY) => {
                Entity::Function(function)
            }
            _ => Entity::Unknown,
        }
    }

    fn in_module(&mut self, module: ModuleId, name: &str, depth: u32) -> Entity {
        let summaries = self.of_module.get(&module).cloned().unwrap_or_default();
        for index in summaries.iter() {
            let summary = &self.summaries[*index as usize];
            if let Some(symbol) = summary.symbols.get(name) {
                return self.symbol(*index as usize, *symbol, depth);
            }
        }
        if let Some(child) = self.modules.child(module, name) {
            return Entity::Module(child);
        }
        self.behind_stars(module, &summaries, name, depth)
    }

    /// What a module takes in with `*`, asked for one name.
    fn behind_stars(
        &mut self,
        module: ModuleId,
        summaries: &[u32],
        name: &str,
        depth: u32,
    ) -> Entity {
        let summaries = summaries
            .iter()
            .map(|index| &self.summaries[*index as usize]);
        let paths: Vec<String> = summaries
            .flat_map(|summary| summary.stars.iter().map(|star| summary.names.get(*star)))
            .map(|star| format!("{star}.{name}"))
            .collect();
        let key = (module, Box::from(name));
        if paths.is_empty() || !self.asked.insert(key.clone()) {
            return Entity::Unknown;
        }
        self.stars += 1;
        let mut found = Entity::Unknown;
        for path in paths {
            found = self.follow(&path, depth + 1);
            if found != Entity::Unknown {
                self.asked.remove(&key);
                break;
            }
        }
        self.stars -= 1;
        if self.stars == 0 {
            self.asked.clear();
        }
        found
    }

    fn symbol(&mut self, summary: usize, symbol: Symbol, depth: u32) -> Entity {
        match symbol {
            Symbol::Function(index) => Entity::Function(self.first_function[summary] + index),
            Symbol::Class(index) => Entity::Class(self.first_class[summary] + index),
            Symbol::Path(name) => {
                let path = self.summaries[summary].names.get(name);
                self.follow(path, depth + 1)
            }
            Symbol::Unknown => Entity::Unknown,
        }
    }

    fn member(&mut self, class: u32, name: &str, instance: bool, depth: u32) -> Entity {
        let (summary, index) = self.class_summary(class);
        if let Some(symbol) = self.summaries[summary].classes[index].members.get(name) {
            return self.symbol(summary, *symbol, depth);
        }
        let found = match self.added(class, name, depth) {
            Entity::Unknown => self.inherited(class, name, depth),
            added => added,
        };
        match found {
            // `Class.attribute` of an outside base is not what an instance would see.
            Entity::External(outside) if !instance => {
                let base = outside.strip_suffix(name);
                let base = base.and_then(|base| base.strip_suffix("()."));
                base.map_or(Entity::Unknown, |base| {
                    self.outside(&format!("{base}.{name}"))
                })
            }
            other => other,
        }
    }

    /// What other files add to a class.
    fn added(&mut self, class: u32, name: &str, depth: u32) -> Entity {
        if self.extended_bases.is_empty() {
            return Entity::Unknown;
        }
        if let Some(function) = self.extended.get(&(class, Box::from(name))) {
            return Entity::Function(*function);
        }
        let bases = self.extended_bases.get(&class).cloned().unwrap_or_default();
        for base in bases {
            let found = match self.follow(&base, depth + 1) {
                Entity::Class(base) if base != class && depth < LONGEST_CHAIN => {
                    self.member(base, name, true, depth + 1)
                }
                _ => Entity::Unknown,
            };
            if found != Entity::Unknown {
                return found;
            }
        }
        Entity::Unknown
    }

    fn inherited(&mut self, class: u32, name: &str, depth: u32) -> Entity {
        if depth > LONGEST_CHAIN {
            return Entity::Unknown;
        }
        let (summary, index) = self.class_summary(class);
        if self.summaries[summary].classes[index].bases.len() > 1 {
            return self.among_bases(class, name, depth);
        }
        for base in &self.summaries[summary].classes[index].bases {
            let path = self.summaries[summary].names.get(*base);
            let found = match self.follow(path, depth + 1) {
                Entity::Class(base) if base != class => self.member(base, name, true, depth + 1),
                Entity::External(outside) => self.outside(&format!("{outside}().{name}")),
                // An unknown base may well define the name: do not look past it.
                _ => return Entity::Unknown,
            };
            if found != Entity::Unknown {
                return found;
            }
        }
        Entity::Unknown
    }

    /// With several bases the order of lookup is not simply depth first.
    fn among_bases(&mut self, class: u32, name: &str, depth: u32) -> Entity {
        let order = mro::of(class, &mut |class| self.bases(class, depth));
        for ancestor in order.into_iter().skip(1) {
            let found = match ancestor {
                Ancestor::Class(class) => {
                    let (summary, index) = self.class_summary(class);
                    match self.summaries[summary].classes[index].members.get(name) {
                        Some(symbol) => self.symbol(summary, *symbol, depth + 1),
                        None => continue,
                    }
                }
                Ancestor::Outside(outside) => self.outside(&format!("{outside}().{name}")),
                // An unknown base may well define the name: do not look past it.
                Ancestor::Unknown => Entity::Unknown,
            };
            return found;
        }
        Entity::Unknown
    }

    fn bases(&mut self, class: u32, depth: u32) -> Vec<Ancestor> {
        let (summary, index) = self.class_summary(class);
        let summary = &self.summaries[summary];
        let bases = summary.classes[index].bases.iter();
        bases
            .map(
                |base| match self.follow(summary.names.get(*base), depth + 1) {
                    Entity::Class(base) => Ancestor::Class(base),
                    Entity::External(outside) => Ancestor::Outside(outside),
                    _ => Ancestor::Unknown,
                },
            )
            .collect()
    }

    fn result(&mut self, function: u32, depth: u32) -> Entity {
        let flags = self.function(function).1.flags;
        if flags.has(FnFlags::OPAQUE) || flags.has(FnFlags::GENERATOR) {
            Entity::Unknown
        } else if flags.has(FnFlags::ASYNC) {
            Entity::Coroutine(function)
        } else {
            self.annotated(function, depth)
        }
    }

    fn annotated(&mut self, function: u32, depth: u32) -> Entity {
        let (summary, function) = self.function(function);
        match function.returns {
            Some(class) => {
                let path = format!("{}()", summary.names.get(class));
                self.follow(&path, depth + 1)
            }
            None => Entity::Unknown,
        }
    }
}
