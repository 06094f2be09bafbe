//! Whether this process has not come to its `main` yet.
//!
//! The loader runs the entries of libraries before `main` if the program needs them, directly or
//! through other libraries, or if they are preloaded. An entry in the executable itself always runs
//! before `main`. All other libraries are loaded by the running program.
#![allow(unsafe_code, reason = "the list of loaded objects is the loader's")]

use std::collections::BTreeSet;
use std::ffi::{CStr, c_int, c_void};
use std::path::Path;

/// A loaded object: the executable, or a library.
#[derive(Debug, Default)]
struct Object {
    /// The names by which other objects may refer to it.
    names: Vec<String>,
    needed: Vec<String>,
    /// Whether this code is in it.
    is_own: bool,
}

/// Whether `main` has not begun.
pub(super) fn is_before_main() -> bool {
    let mut objects: Vec<Object> = Vec::new();
    // SAFETY: the function gets the address of the vector, which nothing else uses meanwhile.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut objects).cast::<c_void>()) };
    let preloaded = std::env::var("LD_PRELOAD").unwrap_or_default();
    is_needed(&objects, preloaded.split([':', ' ']).filter(|name| !name.is_empty()))
}

/// Whether the first object needs the one with this code, directly or not, or this code is
/// preloaded.
fn is_needed<'a>(objects: &'a [Object], preloaded: impl Iterator<Item = &'a str>) -> bool {
    let Some(program) = objects.first() else { return false };
    let mut reached: BTreeSet<&str> = program.needed.iter().map(|name| base(name)).collect();
    reached.extend(preloaded.map(base));
    let mut waiting: Vec<&Object> = objects.iter().skip(1).collect();
    loop {
        let is_reached = |object: &&Object| object.names.iter().any(|name| reached.contains(base(name)));
        let (next, rest): (Vec<&Object>, Vec<&Object>) = waiting.into_iter().partition(is_reached);
        if program.is_own || next.iter().any(|object| object.is_own) {
            return true;
        }
        if next.is_empty() {
            return false;
        }
        reached.extend(next.iter().flat_map(|object| &object.needed).map(|name| base(name)));
        waiting = rest;
    }
}

fn base(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Whether this process has one thread.
pub(super) fn is_single_threaded() -> bool {
    std::fs::read_dir(Path::new("/proc/self/task")).is_ok_and(|threads| threads.count() == 1)
}

/// An entry of the dynamic section.
#[repr(C)]
struct Dynamic {
    tag: isize,
    value: usize,
}

const DT_NULL: isize = 0;
const DT_NEEDED: isize = 1;
const DT_STRTAB: isize = 5;
const DT_SONAME: isize = 14;

unsafe extern "C" fn note(info: *mut libc::dl_phdr_info, _: usize, objects: *mut c_void) -> c_int {
    // SAFETY: the loader's description of one object, and the vector of the caller.
    let (info, objects) = unsafe { (&*info, &mut *objects.cast::<Vec<Object>>()) };
    let mut object = Object::default();
    let text = |at: *const libc::c_char| {
        // SAFETY: a string of the loader or of the object, which ends with NUL.
        unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned()
    };
    if !info.dlpi_name.is_null() {
        object.names.push(text(info.dlpi_name));
    }
    let base = info.dlpi_addr as usize;
    // SAFETY: the loader tells how many headers there are.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let own = note as unsafe extern "C" fn(_, _, _) -> _ as usize;
    for header in headers {
        let start = base.wrapping_add(header.p_vaddr as usize);
        let holds_own = own.wrapping_sub(start) < header.p_memsz as usize;
        object.is_own |= header.p_type == libc::PT_LOAD && holds_own;
        if header.p_type == libc::PT_DYNAMIC {
            // SAFETY: the dynamic section of a loaded object ends with a null entry.
            let entries = (0..).map(|place| unsafe { &*(start as *const Dynamic).add(place) });
            let entries: Vec<&Dynamic> = entries.take_while(|entry| entry.tag != DT_NULL).collect();
            let table = entries.iter().find(|entry| entry.tag == DT_STRTAB).map(|entry| entry.value);
            let Some(table) = table else { continue };
            // Some loaders replace the offset by the address, others do not.
            let table = if table < base { base + table } else { table };
            let named = |tag: isize| {
                let those = entries.iter().filter(move |entry| entry.tag == tag);
                those.map(|entry| text((table + entry.value) as *const _)).collect::<Vec<_>>()
            };
            object.names.extend(named(DT_SONAME));
            object.needed = named(DT_NEEDED);
        }
    }
    objects.push(object);
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(name: &str, needed: &[&str]) -> Object {
        let owned = |name: &str| name.to_owned();
        Object {
            names: vec![owned(name)],
            needed: needed.iter().copied().map(owned).collect(),
            is_own: name.contains("libi.so"),
        }
    }

    #[test]
    fn a_library_is_loaded_before_main_if_the_program_needs_it_in_any_way() {
        let needs = |program: &[&str], preloaded: &[&str]| {
            let objects = [
                object("", program),
                object("/usr/lib/libc.so.6", &["ld.so"]),
                object("/opt/libtool.so", &["libc.so.6", "libi.so.0"]),
                object("/opt/libi.so.0", &["libc.so.6"]),
            ];
            is_needed(&objects, preloaded.iter().copied())
        };
        assert!(needs(&["libi.so.0", "libc.so.6"], &[]));
        assert!(needs(&["libc.so.6", "libtool.so"], &[]), "through another library");
        assert!(needs(&["libc.so.6"], &["/opt/libi.so.0"]), "preloaded");
        assert!(!needs(&["libc.so.6"], &["/opt/other.so"]), "loaded by the program");
    }

    #[test]
    fn this_code_is_in_an_object_that_the_loader_lists_and_tests_have_threads() {
        assert!(is_before_main(), "it is in the executable itself");
        assert!(!is_single_threaded());
    }
}
