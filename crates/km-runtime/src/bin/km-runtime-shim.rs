//! The shim alone, for tests of the runtime; in the product the `km` binary is its own shim.

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    std::process::exit(km_runtime::shim::main(&args));
}
