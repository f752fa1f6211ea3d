//! The image `localhost/km/pause`: a first process that does nothing but reap orphans and end when told to. Standard library only.

const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGCHLD: i32 = 17;
const WNOHANG: i32 = 1;

unsafe extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn pause() -> i32;
    fn _exit(code: i32) -> !;
}

extern "C" fn terminate(_number: i32) {
    // SAFETY: _exit is async-signal-safe.
    unsafe { _exit(0) }
}

extern "C" fn reap(_number: i32) {
    // SAFETY: waitpid is async-signal-safe and accepts a null status.
    while unsafe { waitpid(-1, std::ptr::null_mut(), WNOHANG) } > 0 {}
}

fn main() {
    // SAFETY: the handlers live for ever and call async-signal-safe functions only.
    unsafe {
        signal(SIGINT, terminate);
        signal(SIGTERM, terminate);
        signal(SIGCHLD, reap);
        // A first process doesn't get the signals it has no handler for: whoever must be sure waits for this line.
        println!("waiting for a signal");
        loop {
            pause();
        }
    }
}
