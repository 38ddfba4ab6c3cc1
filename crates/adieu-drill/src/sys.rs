//! The calls of Windows that no crate wraps: Ctrl-Break for a program, and a job. The only file of this crate with
//! `unsafe`.
#![allow(unsafe_code)]

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::sync::OnceLock;

use windows_sys::Win32::Foundation::ERROR_INVALID_PARAMETER;
use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, GenerateConsoleCtrlEvent};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE,
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JobObjectBasicProcessIdList,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject,
    TerminateJobObject,
};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleA, GetProcAddress};
use windows_sys::Win32::System::Threading::{
    CREATE_NEW_PROCESS_GROUP, CreateRemoteThread, OpenProcess, PROCESS_CREATE_THREAD,
    PROCESS_QUERY_INFORMATION, PROCESS_VM_OPERATION, PROCESS_VM_READ, PROCESS_VM_WRITE,
};

/// Whether Ctrl-Break can be sent over our console. Not without one, as in a service; nor in wine, which has not got
/// it.
pub(crate) fn has_break() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    /// The system's own process, which leads no group.
    const NO_GROUP: u32 = 4;
    *HAS.get_or_init(|| {
        // SAFETY: the call takes two integers.
        let sent = unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, NO_GROUP) } != 0;
        let code = io::Error::last_os_error().raw_os_error();
        sent || code.and_then(|code| u32::try_from(code).ok()) == Some(ERROR_INVALID_PARAMETER)
    })
}

/// With which flags a program is started that is to get Ctrl-Break: it must lead a group if that comes over the
/// console, or every process there would get it.
pub(crate) fn flags() -> u32 {
    if has_break() {
        CREATE_NEW_PROCESS_GROUP
    } else {
        0
    }
}

/// Sends Ctrl-Break to a program that was started with these flags.
pub(crate) fn send_break(pid: u32) -> io::Result<()> {
    if !has_break() {
        return call_handlers(pid);
    }
    // SAFETY: the call takes two integers. A group of 0 would be every process, and is not asked for.
    let sent = pid != 0 && unsafe { GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, pid) } != 0;
    if sent {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Delivers Ctrl-Break as Windows does: a new thread in the process runs `CtrlRoutine`, which calls the handlers.
fn call_handlers(pid: u32) -> io::Result<()> {
    let rights = PROCESS_CREATE_THREAD
        | PROCESS_QUERY_INFORMATION
        | PROCESS_VM_OPERATION
        | PROCESS_VM_READ
        | PROCESS_VM_WRITE;
    // SAFETY: both names end with a zero, and the library never leaves a process.
    let routine = unsafe {
        let library = GetModuleHandleA(c"kernel32.dll".as_ptr().cast());
        GetProcAddress(library, c"CtrlRoutine".as_ptr().cast())
    };
    let routine = routine.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the first call takes integers, and its handle is checked before it is owned. `CtrlRoutine` is the start
    // of a thread and takes the number of the event for its argument; the library is at the same address in every
    // process of a session. The new thread's handle is ours to close.
    unsafe {
        let process = OpenProcess(rights, 0, pid);
        if process.is_null() {
            return Err(io::Error::last_os_error());
        }
        let process = OwnedHandle::from_raw_handle(process);
        let start = std::mem::transmute::<
            unsafe extern "system" fn() -> isize,
            unsafe extern "system" fn(*mut core::ffi::c_void) -> u32,
        >(routine);
        let thread = CreateRemoteThread(
            process.as_raw_handle(),
            std::ptr::null(),
            0,
            Some(start),
            std::ptr::without_provenance(CTRL_BREAK_EVENT as usize),
            0,
            std::ptr::null_mut(),
        );
        if thread.is_null() {
            return Err(io::Error::last_os_error());
        }
        drop(OwnedHandle::from_raw_handle(thread));
    }
    Ok(())
}

/// A job, which ends the processes in it when it is dropped.
#[derive(Debug)]
pub(crate) struct Job(OwnedHandle);

/// As many processes as are listed.
const MOST: usize = 1_000;

/// What `QueryInformationJobObject` writes: two counts, and so many numbers.
#[repr(C)]
struct Processes {
    assigned: u32,
    listed: u32,
    pids: [usize; MOST],
}

impl Job {
    /// A job with this process in it. The handle must be that of a process.
    pub(crate) fn of(process: RawHandle) -> io::Result<Self> {
        // SAFETY: both pointers may be null; the handle is new, ours, and checked before it is owned.
        let job = unsafe {
            let job = CreateJobObjectW(std::ptr::null(), std::ptr::null());
            if job.is_null() {
                return Err(io::Error::last_os_error());
            }
            OwnedHandle::from_raw_handle(job)
        };
        let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE;
        let size = u32::try_from(size_of_val(&limits)).unwrap_or(0);
        // SAFETY: the job is open, and the pointer is to a live structure of the class and size given. A handle of
        // something other than a process is an error, which is returned.
        let done = unsafe {
            SetInformationJobObject(
                job.as_raw_handle(),
                JobObjectExtendedLimitInformation,
                (&raw const limits).cast(),
                size,
            ) != 0
                && AssignProcessToJobObject(job.as_raw_handle(), process) != 0
        };
        if done {
            Ok(Self(job))
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// The numbers of those in it who live.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut list = Processes {
            assigned: 0,
            listed: 0,
            pids: [0; MOST],
        };
        let size = u32::try_from(size_of::<Processes>()).unwrap_or(0);
        // SAFETY: the job is open, and the pointer is to a live structure of the class and size given, which the call
        // fills as far as it goes.
        let done = unsafe {
            QueryInformationJobObject(
                self.0.as_raw_handle(),
                JobObjectBasicProcessIdList,
                (&raw mut list).cast(),
                size,
                std::ptr::null_mut(),
            )
        };
        let listed = usize::try_from(list.listed).unwrap_or(0).min(MOST);
        let listed = if done == 0 { 0 } else { listed };
        list.pids[..listed]
            .iter()
            .filter_map(|pid| u32::try_from(*pid).ok())
            .collect()
    }

    /// Ends all of them.
    pub(crate) fn end(&self) {
        // SAFETY: the job is open, and the rest is an integer.
        unsafe { TerminateJobObject(self.0.as_raw_handle(), 1) };
    }
}
