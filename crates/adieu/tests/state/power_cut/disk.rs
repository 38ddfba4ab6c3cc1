//! A disk that keeps no more than it has to.
//!
//! What was written and not flushed is there, or not, or in part, or as zeros of the right length. Names that were changed
//! and not flushed are changed or not, each change by itself and whatever the order: a journal would keep the order, but no
//! program may rely on one. A flush of a file says nothing of its name; that of a directory is one of the names in it.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::trace::Call;

/// The files by their path from the root; directories have no content.
pub(super) type Names = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// More changes than these are not combined in every way.
const MOST: usize = 8;

struct Inode {
    is_folder: bool,
    cached: Vec<u8>,
    flushed: Vec<u8>,
}

/// Names that change in one step, in one directory.
struct Change {
    folder: PathBuf,
    names: Vec<(PathBuf, Option<usize>)>,
}

pub(super) struct Disk {
    root: PathBuf,
    inodes: Vec<Inode>,
    cached: BTreeMap<PathBuf, usize>,
    flushed: BTreeMap<PathBuf, usize>,
    changes: Vec<Change>,
    /// Where the next write to a file goes.
    offsets: HashMap<PathBuf, usize>,
    acknowledged: u64,
}

impl Disk {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            inodes: Vec::new(),
            cached: BTreeMap::new(),
            flushed: BTreeMap::new(),
            changes: Vec::new(),
            offsets: HashMap::new(),
            acknowledged: 0,
        }
    }

    pub(super) const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The process is gone; what it wrote is in the kernel still.
    pub(super) fn next_process(&mut self) {
        self.offsets.clear();
    }

    fn at(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_owned()
    }

    fn inode(&mut self, path: &Path) -> &mut Inode {
        let number = self.cached[path];
        &mut self.inodes[number]
    }

    fn make(&mut self, path: PathBuf, is_folder: bool) {
        self.inodes.push(Inode {
            is_folder,
            cached: Vec::new(),
            flushed: Vec::new(),
        });
        self.change(vec![(path, Some(self.inodes.len() - 1))]);
    }

    fn change(&mut self, names: Vec<(PathBuf, Option<usize>)>) {
        let folder = names[0].0.parent().unwrap_or(Path::new("")).to_owned();
        for (name, inode) in &names {
            assert_eq!(name.parent(), Some(&*folder), "within one directory");
            set(&mut self.cached, name, *inode);
        }
        self.changes.push(Change { folder, names });
    }

    pub(super) fn apply(&mut self, call: &Call) {
        match call {
            Call::MakeFolder(path) => self.make(self.at(path), true),
            Call::Open(path, makes) => {
                let path = self.at(path);
                self.offsets.insert(path.clone(), 0);
                if *makes && !self.cached.contains_key(&path) {
                    self.make(path, false);
                }
            }
            Call::Write(path, bytes) => {
                let path = self.at(path);
                let from = self.offsets[&path];
                let to = from + bytes.len();
                let inode = self.inode(&path);
                if inode.cached.len() < to {
                    inode.cached.resize(to, 0);
                }
                inode.cached[from..to].copy_from_slice(bytes);
                self.offsets.insert(path, to);
            }
            Call::Truncate(path, length) => {
                let path = self.at(path);
                self.inode(&path).cached.resize(*length, 0);
                self.offsets.insert(path, *length);
            }
            Call::Flush(path) => self.flush(&self.at(path)),
            Call::Rename(from, to) => {
                let (from, to) = (self.at(from), self.at(to));
                let inode = self.cached[&from];
                self.change(vec![(from, None), (to, Some(inode))]);
            }
            Call::Exchange(one, other) => {
                let (one, other) = (self.at(one), self.at(other));
                let (first, second) = (self.cached[&one], self.cached[&other]);
                self.change(vec![(one, Some(second)), (other, Some(first))]);
            }
            Call::Link(from, to) => {
                let inode = self.cached[&self.at(from)];
                self.change(vec![(self.at(to), Some(inode))]);
            }
            Call::Remove(path) => self.change(vec![(self.at(path), None)]),
            Call::Acknowledged(number) => self.acknowledged = *number,
        }
    }

    fn flush(&mut self, path: &Path) {
        let is_folder = path.as_os_str().is_empty() || self.inode(path).is_folder;
        if !is_folder {
            let inode = self.inode(path);
            inode.flushed = inode.cached.clone();
            return;
        }
        let changes = std::mem::take(&mut self.changes);
        for change in changes {
            if change.folder != path {
                self.changes.push(change);
                continue;
            }
            for (name, inode) in &change.names {
                set(&mut self.flushed, name, *inode);
            }
        }
    }

    /// What a process sees, as long as there is power.
    pub(super) fn cached(&self) -> Names {
        self.named(&self.cached, |inode| inode.cached.clone())
    }

    /// Every disk that there may be when the power goes now.
    pub(super) fn after_a_cut(&self) -> Vec<Names> {
        let changes = self.changes.len();
        let kept: Vec<Vec<bool>> = if changes <= MOST {
            (0..1_u32 << changes)
                .map(|bits| (0..changes).map(|at| bits >> at & 1 == 1).collect())
                .collect()
        } else {
            (0..=changes)
                .map(|first| (0..changes).map(|at| at < first).collect())
                .collect()
        };
        kept.iter().flat_map(|kept| self.with_names(kept)).collect()
    }

    /// Those with these changes of names.
    fn with_names(&self, kept: &[bool]) -> Vec<Names> {
        let mut names = self.flushed.clone();
        for (change, _) in self.changes.iter().zip(kept).filter(|(_, kept)| **kept) {
            for (name, inode) in &change.names {
                set(&mut names, name, *inode);
            }
        }
        // Nothing is in a directory that is not there.
        let all = names.clone();
        names.retain(|name, _| {
            let mut above = name.ancestors().skip(1);
            above.all(|folder| folder.as_os_str().is_empty() || all.contains_key(folder))
        });
        let mut disks = vec![
            self.named(&names, |inode| inode.flushed.clone()),
            self.named(&names, |inode| inode.cached.clone()),
        ];
        for (name, inode) in &names {
            let inode = &self.inodes[*inode];
            if inode.cached == inode.flushed {
                continue;
            }
            let zeros = vec![0; inode.cached.len()];
            let half = inode.cached.len() / 2;
            let mut torn = inode.flushed.clone();
            torn.resize(inode.cached.len(), 0);
            torn[..half].copy_from_slice(&inode.cached[..half]);
            let cut = inode.cached[..half].to_vec();
            for content in [zeros, torn, cut] {
                let mut disk = self.named(&names, |inode| inode.cached.clone());
                disk.insert(name.clone(), Some(content));
                disks.push(disk);
            }
        }
        disks
    }

    fn named(
        &self,
        names: &BTreeMap<PathBuf, usize>,
        content: impl Fn(&Inode) -> Vec<u8>,
    ) -> Names {
        let node = |inode: &Inode| (!inode.is_folder).then(|| content(inode));
        names
            .iter()
            .map(|(name, number)| (name.clone(), node(&self.inodes[*number])))
            .collect()
    }
}

fn set(names: &mut BTreeMap<PathBuf, usize>, name: &Path, inode: Option<usize>) {
    match inode {
        Some(inode) => drop(names.insert(name.to_owned(), inode)),
        None => drop(names.remove(name)),
    }
}

/// Writes them to a directory, with the rights that the store gives them.
pub(super) fn write(names: &Names, root: &Path) -> io::Result<()> {
    for (name, content) in names {
        let path = root.join(name);
        match content {
            None => fs::DirBuilder::new().mode(0o700).create(path)?,
            Some(content) => {
                let mut options = fs::OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                io::Write::write_all(&mut options.open(path)?, content)?;
            }
        }
    }
    Ok(())
}

/// What is in the directory `state` of a root, and that directory.
pub(super) fn read(root: &Path) -> io::Result<Names> {
    let mut names = Names::from([(PathBuf::from("state"), None)]);
    for file in fs::read_dir(root.join("state"))? {
        let path = file?.path();
        let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
        names.insert(name, Some(fs::read(&path)?));
    }
    Ok(names)
}
