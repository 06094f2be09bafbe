//! The files that a process has mapped, from its `/proc/PID/maps`.

/// A file that is mapped from its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// As the process sees it; of one that is gone, with ` (deleted)` behind it.
    pub(crate) path: String,
    /// The first mapping.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// The objects in the order of their addresses, each once: the executable is the first of them in all but
/// rare layouts, and is told by its path.
pub(crate) fn objects(maps: &str) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    for object in maps.lines().filter_map(object) {
        if !objects.iter().any(|other| other.path == object.path) {
            objects.push(object);
        }
    }
    objects
}

/// `7f21a000-7f21b000 r--p 00000000 fd:01 1234      /a path/with spaces`
fn object(line: &str) -> Option<Object> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let offset = fields.nth(1)?;
    let path = fields.nth(2)?.trim_start();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let object = Object { path: path.to_owned(), start: number(start)?, end: number(end)? };
    (number(offset)? == 0 && path.starts_with('/')).then_some(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_is_known_by_its_first_mapping() {
        let maps = "\
55d0c0000000-55d0c0010000 r--p 00000000 fd:01 42                         /usr/bin/srun
55d0c0010000-55d0c0020000 r-xp 00010000 fd:01 42                         /usr/bin/srun
55d0c2000000-55d0c2021000 rw-p 00000000 00:00 0                          [heap]
7f0000000000-7f0000001000 r--p 00000000 fd:01 43                         /opt/with space/lib.so (deleted)
7f0000002000-7f0000003000 rw-p 00000000 00:00 0
7f0000004000-7f0000005000 r--p 00001000 fd:01 44                         /usr/lib/not-from-its-beginning.so
";
        let object = |path: &str, start, end| Object { path: path.to_owned(), start, end };
        let expected = [
            object("/usr/bin/srun", 0x55d0_c000_0000, 0x55d0_c001_0000),
            object("/opt/with space/lib.so (deleted)", 0x7f00_0000_0000, 0x7f00_0000_1000),
        ];
        assert_eq!(objects(maps), expected);
        assert!(objects("nonsense\n1-2 r 0\n\n-\n").is_empty());
    }
}
