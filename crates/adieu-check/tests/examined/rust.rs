//! Rust: each trap must be clean, each fault found where it stands.

use crate::support::Project;

predictions! {
    fs_err: Project::rust(r#"use fs_err as fs;
use std::io::Read;
async fn f() {
    let _ = fs::read("x");
    let mut text = String::new();
    fs_err::File::open("x").unwrap().read_to_string(&mut text).unwrap();
}
"#)
    => ["src/lib.rs:4 ADR102", "src/lib.rs:6 ADR102", "src/lib.rs:6 ADR102"];
    fs_err_for_tokio_clean: Project::rust(r#"async fn f() {
    let _ = fs_err::tokio::read("x").await;
    tokio::task::spawn_blocking(|| fs_err::read("x"));
}
"#)
    => [];
    alias: Project::rust(r#"use std::thread::sleep as nap;
use std::time::Duration;
mod inner {
    pub use std::fs::read_to_string as slurp;
    pub mod deep { pub fn load() -> String { super::slurp("x").unwrap() } }
}
pub use inner::deep::load as get;
async fn f() {
    nap(Duration::from_secs(1));
    let _ = get();
    let _ = inner::slurp("y");
}
"#)
    => ["src/lib.rs:9 ADR101", "src/lib.rs:10 ADR102", "src/lib.rs:11 ADR102"];
    parking_lot: Project::rust(r"use parking_lot::Mutex;
async fn f(m: &Mutex<u8>) {
    let g = m.lock();
    tick().await;
    drop(g);
}
async fn tick() {}
")
    => ["src/lib.rs:3 ADR502"];
    select_mut: Project::rust(r"use tokio::io::AsyncReadExt;
async fn f(mut s: tokio::net::TcpStream, mut stop: tokio::sync::mpsc::Receiver<()>) {
    let mut buf = [0u8; 8];
    loop {
        tokio::select! {
            r = s.read_exact(&mut buf) => { let _ = r; }
            _ = stop.recv() => break,
        }
    }
}
")
    => ["src/lib.rs:6 ADR503"];
    select_mut_clean: Project::rust(r"use tokio::io::AsyncReadExt;
async fn f(mut s: tokio::net::TcpStream, mut stop: tokio::sync::mpsc::Receiver<()>) {
    let mut buf = [0u8; 8];
    let read = s.read_exact(&mut buf);
    tokio::pin!(read);
    loop {
        tokio::select! {
            r = &mut read => { let _ = r; break; }
            _ = stop.recv() => {}
        }
    }
}
")
    => [];
    block_in_place_clean: Project::rust(r"use std::time::Duration;
async fn f() {
    tokio::task::block_in_place(|| std::thread::sleep(Duration::from_secs(1)));
    tokio::task::block_in_place(move || { tokio::runtime::Handle::current().block_on(async { 1 }) });
}
")
    => [];
    guards_clean: Project::rust(r"use std::sync::Mutex;
async fn a(m: &Mutex<Vec<u8>>) {
    let g = m.lock().unwrap();
    drop(g);
    tick().await;
}
async fn b(m: &Mutex<Vec<u8>>) {
    { let mut g = m.lock().unwrap(); g.push(1); }
    tick().await;
}
async fn c(m: &tokio::sync::Mutex<u8>) {
    let g = m.lock().await;
    tick().await;
    drop(g);
}
async fn d(m: &Mutex<Vec<u8>>) {
    let n = m.lock().unwrap().len();
    m.lock().unwrap().push(n as u8);
    tick().await;
    if let Ok(g) = m.try_lock() { let _ = g.len(); }
    tick().await;
}
async fn tick() {}
")
    => [];
    guard_if: Project::rust(r#"use std::sync::{RwLock, Mutex};
struct S { m: Mutex<u8>, r: RwLock<u8> }
impl S {
    async fn a(&self) {
        if let Ok(g) = self.m.lock() { tick().await; let _ = g; }
    }
    async fn b(&self) {
        let r = self.r.read().unwrap();
        tick().await;
        println!("{}", *r);
    }
    async fn c(&self) {
        match self.m.lock() { Ok(_g) => tick().await, Err(_) => {} }
    }
}
async fn tick() {}
"#)
    => ["src/lib.rs:5 ADR502", "src/lib.rs:8 ADR502", "src/lib.rs:13 ADR502"];
    trait_method: Project::rust(r#"trait Store { fn load(&self) -> String; async fn go(&self); }
struct Disk;
impl Store for Disk {
    fn load(&self) -> String { std::fs::read_to_string("x").unwrap() }
    async fn go(&self) { let _ = self.load(); }
}
async fn f(d: Disk) { d.load(); }
"#)
    => ["src/lib.rs:5 ADR102", "src/lib.rs:7 ADR102"];
    macro_args: Project::rust(r#"async fn f() {
    println!("{}", std::fs::read_to_string("x").unwrap());
    let v = vec![std::fs::read("y").unwrap()];
    assert_eq!(v.len(), std::fs::read_dir("z").unwrap().count());
}
"#)
    => ["src/lib.rs:2 ADR102", "src/lib.rs:3 ADR102", "src/lib.rs:4 ADR102"];
    misc: Project::rust(r#"use std::sync::{mpsc, Condvar, Mutex};
use std::process::Command;
async fn f(rx: mpsc::Receiver<u8>, h: std::thread::JoinHandle<()>, m: &Mutex<bool>, c: &Condvar) {
    let _ = rx.recv();
    let _ = Command::new("ls").output();
    let _ = reqwest::blocking::get("http://x");
    let _ = ureq::get("http://x").call();
    let _ = h.join();
    let mut child = Command::new("ls").spawn().unwrap();
    child.wait().unwrap();
    let rt = tokio::runtime::Runtime::new().unwrap();
    rt.block_on(async {});
    std::process::exit(1);
}
"#)
    => ["src/lib.rs:4 ADR106", "src/lib.rs:5 ADR104", "src/lib.rs:6 ADR105", "src/lib.rs:7 ADR105", "src/lib.rs:8 ADR107", "src/lib.rs:10 ADR104", "src/lib.rs:11 ADR203", "src/lib.rs:12 ADR201", "src/lib.rs:13 ADR401"];
    blocking_methods: Project::rust(r"use tokio::sync::{mpsc, Mutex, oneshot};
async fn f(tx: mpsc::Sender<u8>, mut rx: mpsc::Receiver<u8>, m: &Mutex<u8>, o: oneshot::Receiver<u8>) {
    let _ = tx.blocking_send(1);
    let _ = rx.blocking_recv();
    let _ = m.blocking_lock();
    let _ = o.blocking_recv();
}
")
    => ["src/lib.rs:3 ADR109", "src/lib.rs:4 ADR109", "src/lib.rs:5 ADR109", "src/lib.rs:6 ADR109"];
    spin: Project::rust(r"use std::sync::atomic::{AtomicBool, Ordering};
async fn f(b: &AtomicBool) {
    loop { work(); }
}
async fn g(b: &AtomicBool) {
    while !b.load(Ordering::Relaxed) { std::hint::spin_loop(); }
}
fn work() {}
")
    => ["src/lib.rs:3 ADR501"];
    async_block: Project::rust(r#"use std::time::Duration;
pub fn start() {
    tokio::spawn(async move {
        std::thread::sleep(Duration::from_secs(1));
    });
    let f = async || { std::fs::read("x").unwrap(); };
}
"#)
    => ["src/lib.rs:4 ADR101", "src/lib.rs:6 ADR102"];
    threads_clean: Project::rust(r#"use std::time::Duration;
async fn f() {
    std::thread::spawn(|| std::thread::sleep(Duration::from_secs(1)));
    tokio::task::spawn_blocking(move || { std::fs::read("x") }).await.unwrap().unwrap();
    std::thread::Builder::new().spawn(|| { std::fs::read("x").unwrap(); }).unwrap();
    rayon::spawn(|| { std::thread::sleep(Duration::from_secs(1)); });
    let work = || std::thread::sleep(Duration::from_secs(1));
    tokio::task::spawn_blocking(work).await.unwrap();
    fn nested() { std::thread::sleep(Duration::from_secs(1)); }
    std::thread::spawn(nested);
    std::thread::scope(|s| { });
}
"#)
    => [];
    names_clean: Project::rust(r#"use tokio::{fs, process::Command, time::sleep, sync::mpsc};
use std::time::Duration;
async fn f(mut rx: mpsc::Receiver<u8>, std_rx: std::sync::mpsc::Receiver<u8>, h: tokio::task::JoinHandle<()>) {
    sleep(Duration::from_secs(1)).await;
    fs::read("x").await.unwrap();
    Command::new("ls").output().await.unwrap();
    rx.recv().await;
    let _ = std_rx.try_recv();
    let _ = std_rx.recv_timeout(Duration::ZERO);
    h.await.unwrap();
    let v = vec!["a", "b"].join("/");
    let p = std::path::Path::new("a").join("b");
}
"#)
    => [];
    main_start_clean: Project::rust(r#"fn main() {
    let text = std::fs::read_to_string("settings.toml").unwrap();
    let rt = tokio::runtime::Runtime::new().unwrap();
    rt.block_on(async { serve(text).await });
}
async fn serve(_: String) {}
"#)
    => [];
    second_runtime: Project::rust(r"pub struct Client { rt: tokio::runtime::Runtime }
impl Client {
    pub fn new() -> Self { Client { rt: tokio::runtime::Builder::new_current_thread().build().unwrap() } }
    pub fn get(&self) { self.rt.block_on(async {}) }
}
async fn f(c: Client) { c.get(); }
")
    => ["src/lib.rs:6 ADR201"];
    untracked: Project::new()
        .file("Cargo.toml", r#"[package]
name="app"
version="0.1.0"
[dependencies]
adieu="0.1"
tokio="1"
"#)
        .file("src/lib.rs", r"use adieu::App;
pub async fn setup(app: &mut App) {
    tokio::spawn(async { loop { tokio::task::yield_now().await } });
}
")
    => ["src/lib.rs:3 ADR301"];
    tracked_clean: Project::new()
        .file("Cargo.toml", r#"[package]
name="app"
version="0.1.0"
[dependencies]
adieu="0.1"
tokio="1"
"#)
        .file("src/lib.rs", r"use adieu::App;
pub async fn setup(app: &mut App) {
    let h = tokio::spawn(async { 1 });
    h.await.unwrap();
    let mut set = tokio::task::JoinSet::new();
    set.spawn(async {});
    while set.join_next().await.is_some() {}
}
")
    => [];
    generic_helper: Project::rust(r#"use std::net::TcpStream;
use std::io::{Read, Write};
fn ask(addr: &str) -> std::io::Result<String> {
    let mut s = TcpStream::connect(addr)?;
    s.write_all(b"x")?;
    let mut out = String::new();
    s.read_to_string(&mut out)?;
    Ok(out)
}
async fn f() { let _ = ask("x").unwrap(); }
"#)
    => ["src/lib.rs:10 ADR103"];
    workspace: Project::new()
        .file("Cargo.toml", r#"[workspace]
members=["a","b"]
"#)
        .file("a/Cargo.toml", r#"[package]
name="my-a"
version="0.1.0"
"#)
        .file("a/src/lib.rs", r"pub mod x;
pub use x::*;
")
        .file("a/src/x.rs", r"pub fn slow() { std::thread::sleep(std::time::Duration::from_secs(1)) }
")
        .file("b/Cargo.toml", r#"[package]
name="b"
version="0.1.0"
[dependencies]
my-a={path="../a"}
ren={package="my-a",path="../a"}
"#)
        .file("b/src/main.rs", r"#[tokio::main]
async fn main() {
    serve().await;
}
async fn serve() {
    my_a::slow();
    ren::x::slow();
}
")
    => ["b/src/main.rs:6 ADR101", "b/src/main.rs:7 ADR101"];
    shadow_local_clean: Project::rust(r#"struct Disk;
impl Disk { fn read(&self) {} fn sleep(&self) {} fn join(self) {} fn recv(&self) {} fn wait(&self) {} }
mod fs { pub fn read(_: &str) {} }
async fn f(d: Disk) {
    d.read(); d.sleep(); d.recv(); d.wait();
    fs::read("x");
    d.join();
}
"#)
    => [];
    cfg_test_clean: Project::rust(r#"#[cfg(test)]
mod tests {
    #[tokio::test]
    async fn t() { std::thread::sleep(std::time::Duration::from_secs(1)); }
}
#[tokio::test]
async fn u() { std::fs::read("x").unwrap(); }
"#)
    => [];
    while_let_guard: Project::rust(r"use std::sync::Mutex;
async fn f(m: &Mutex<Vec<u8>>) {
    while let Some(x) = m.lock().unwrap().pop() {
        tick(x).await;
    }
    for x in m.lock().unwrap().iter() { tick(*x).await; }
}
async fn tick(_: u8) {}
")
    => ["src/lib.rs:3 ADR502", "src/lib.rs:6 ADR502"];
    read_once_clean: Project::rust(r#"use std::sync::{OnceLock, LazyLock};
static C: LazyLock<String> = LazyLock::new(|| std::fs::read_to_string("x").unwrap());
async fn f() { println!("{}", C.len()); }
"#)
    => [];
    an_async_trait: Project::rust(r"struct S;
#[async_trait::async_trait]
impl T for S { async fn go(&self) { std::thread::sleep(D) } }
")
    => ["src/lib.rs:3 ADR101"];
    guards_that_end_in_time_clean: Project::rust(r"use std::sync::Mutex;
async fn f(m: &Mutex<Option<u8>>) {
    let v = { let g = m.lock().unwrap(); *g };
    let w = match *m.lock().unwrap() { Some(x) => x, None => 0 };
    tick().await;
    let _ = (v, w);
    let taken = std::mem::take(&mut *m.lock().unwrap());
    tick().await;
}
async fn tick() {}
")
    => [];
}
