//! The public surface of a crate, and the paths in it.

use std::collections::BTreeSet;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{
    Attribute, Fields, File, Generics, ImplItem, Item, ItemImpl, Path, Signature, TraitItem, Type,
    Visibility,
};

use super::Found;
use super::names::Names;

/// What stands in the public surface of these files, by their names.
pub(super) fn of(files: &[(String, File)], crates: &BTreeSet<&str>) -> Found {
    let mut types = BTreeSet::new();
    for (_, file) in files {
        public_types(&file.items, &mut types);
    }
    let mut found = Found::new();
    for (name, file) in files {
        module(&file.items, name, &types, crates, &mut found);
    }
    found
}

/// The types that are declared as public, by their names alone.
fn public_types(items: &[Item], types: &mut BTreeSet<String>) {
    for item in items {
        match item {
            Item::Struct(it) if is_public(&it.vis) => drop(types.insert(it.ident.to_string())),
            Item::Enum(it) if is_public(&it.vis) => drop(types.insert(it.ident.to_string())),
            Item::Mod(it) if !is_left_out(&it.attrs) => {
                let items = it.content.as_ref().map(|(_, items)| &**items);
                public_types(items.unwrap_or_default(), types);
            }
            Item::Macro(it) => public_types(&expanded(&it.mac), types),
            _ => {}
        }
    }
}

/// The items in a macro that takes items and gives them back, as `pin_project!` does.
fn expanded(mac: &syn::Macro) -> Vec<Item> {
    match mac.path.is_ident("pin_project") {
        true => syn::parse2::<File>(mac.tokens.clone()).map_or_else(|_| Vec::new(), |it| it.items),
        false => Vec::new(),
    }
}

fn module(
    items: &[Item],
    file: &str,
    types: &BTreeSet<String>,
    crates: &BTreeSet<&str>,
    found: &mut Found,
) {
    let names = Names::of(items, crates);
    let mut paths = Paths {
        names: &names,
        file,
        found,
    };
    for item in items {
        paths.item(item, types);
    }
    for item in items {
        let inner = match item {
            Item::Mod(it) if !is_left_out(&it.attrs) => it.content.as_ref(),
            _ => None,
        };
        if let Some((_, items)) = inner {
            module(items, file, types, crates, found);
        }
    }
}

struct Paths<'a> {
    names: &'a Names<'a>,
    file: &'a str,
    found: &'a mut Found,
}

impl Visit<'_> for Paths<'_> {
    fn visit_path(&mut self, path: &Path) {
        if let Some(name) = self.names.foreign(path) {
            self.add(name, path.span().start().line);
        }
        visit::visit_path(self, path);
    }
}

impl Paths<'_> {
    fn add(&mut self, name: String, line: usize) {
        let place = format!("{}:{line}", self.file);
        self.found.entry(name).or_insert(place);
    }

    fn item(&mut self, item: &Item, types: &BTreeSet<String>) {
        match item {
            Item::Fn(it) if is_public(&it.vis) => self.signature(&it.sig),
            Item::Struct(it) if is_public(&it.vis) => {
                self.generics(&it.generics);
                self.fields(&it.fields, false);
            }
            Item::Enum(it) if is_public(&it.vis) => {
                self.generics(&it.generics);
                it.variants
                    .iter()
                    .for_each(|it| self.fields(&it.fields, true));
            }
            Item::Type(it) if is_public(&it.vis) => self.visit_type(&it.ty),
            Item::Const(it) if is_public(&it.vis) => self.visit_type(&it.ty),
            Item::Static(it) if is_public(&it.vis) => self.visit_type(&it.ty),
            Item::Trait(it) if is_public(&it.vis) => {
                self.generics(&it.generics);
                it.supertraits
                    .iter()
                    .for_each(|it| self.visit_type_param_bound(it));
                for item in &it.items {
                    match item {
                        TraitItem::Fn(it) => self.signature(&it.sig),
                        other => self.visit_trait_item(other),
                    }
                }
            }
            Item::Use(it) if is_public(&it.vis) && !is_left_out(&it.attrs) => {
                for name in self.names.reexported(&it.tree) {
                    self.add(name, it.span().start().line);
                }
            }
            Item::Impl(it) if is_of(&it.self_ty, types) => self.implementation(it),
            Item::Macro(it) => expanded(&it.mac).iter().for_each(|it| self.item(it, types)),
            _ => {}
        }
    }

    fn implementation(&mut self, it: &ItemImpl) {
        if let Some((_, of, _)) = &it.trait_ {
            self.generics(&it.generics);
            self.visit_path(of);
        } else if it.items.iter().any(is_public_item) {
            self.generics(&it.generics);
        }
        for item in &it.items {
            match item {
                // The signatures of a trait's functions are the trait's.
                ImplItem::Type(item) => self.visit_type(&item.ty),
                ImplItem::Fn(item) if is_public(&item.vis) => self.signature(&item.sig),
                ImplItem::Const(item) if is_public(&item.vis) => self.visit_type(&item.ty),
                _ => {}
            }
        }
    }

    fn signature(&mut self, it: &Signature) {
        self.visit_signature(it);
    }

    fn generics(&mut self, it: &Generics) {
        self.visit_generics(it);
    }

    fn fields(&mut self, fields: &Fields, all: bool) {
        for field in fields {
            if all || is_public(&field.vis) {
                self.visit_type(&field.ty);
            }
        }
    }
}

const fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_public_item(item: &ImplItem) -> bool {
    match item {
        ImplItem::Fn(it) => is_public(&it.vis),
        ImplItem::Const(it) => is_public(&it.vis),
        _ => false,
    }
}

fn is_of(self_type: &Type, types: &BTreeSet<String>) -> bool {
    match self_type {
        Type::Path(it) => {
            let last = it.path.segments.last();
            last.is_some_and(|it| types.contains(&it.ident.to_string()))
        }
        _ => false,
    }
}

/// Only in a build of tests or of the fuzz targets.
fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|it| {
        it.path().is_ident("cfg")
            && it.parse_args::<Path>().is_ok_and(|it| {
                ["test", "fuzzing", "doctest", "loom"]
                    .iter()
                    .any(|cfg| it.is_ident(cfg))
            })
    })
}
