//! `include/libi.h` is what cbindgen makes of the sources.

use std::path::Path;

#[test]
fn the_header_is_what_the_sources_say() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(here.join("cbindgen.toml")).expect("cbindgen.toml is read");
    let made = cbindgen::Builder::new().with_crate(here).with_config(config).generate();
    let mut text = Vec::new();
    made.expect("the sources are understood").write(&mut text);
    let text = String::from_utf8(text).expect("a header is text");

    let header = here.join("../include/libi.h");
    if std::env::var_os("LIBI_WRITE_HEADER").is_some() {
        std::fs::write(&header, &text).expect("the header is written");
    }
    let found = std::fs::read_to_string(&header).unwrap_or_default();
    assert!(
        found == text,
        "include/libi.h is not what libi-ffi/src says: LIBI_WRITE_HEADER=1 cargo test -p libi-ffi --test header"
    );
}
