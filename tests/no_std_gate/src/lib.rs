//! libi-core in a world without a standard library.
#![no_std]

extern crate alloc;

use core::alloc::{GlobalAlloc, Layout};
use core::num::NonZeroU32;
use core::panic::PanicInfo;
use core::time::Duration;

use libi_core::cost::Cost;
use libi_core::plan::Strategy;
use libi_core::ranking::Plan;

/// Makes the linker keep the core: a plan is laid out, and a launch simulated for it.
#[unsafe(no_mangle)]
pub extern "C" fn launch_time_nanos(hosts: u32) -> u64 {
    let cost = Cost::new(Duration::from_millis(7), Duration::from_millis(172));
    let hosts = NonZeroU32::new(hosts).unwrap_or(NonZeroU32::MIN);
    Plan::new(Strategy::Late, hosts, &cost).launch_time().as_nanos() as u64
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    loop {}
}

struct Nothing;

// SAFETY: it never hands out memory.
unsafe impl GlobalAlloc for Nothing {
    unsafe fn alloc(&self, _: Layout) -> *mut u8 {
        core::ptr::null_mut()
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[global_allocator]
static ALLOCATOR: Nothing = Nothing;
