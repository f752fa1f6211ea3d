//! The image `localhost/km/hello`: a small HTTP server that says where it runs. Standard library only, so that the
//! build needs nothing but the Rust compiler.

use std::{
    env,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

/// Connections served at once; more are answered 503, so that a flood costs no more memory than this.
const MAX_CONNECTIONS: usize = 64;
/// Longest request line or header line read.
const MAX_LINE: u64 = 8 * 1024;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

static OPEN: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" {
    fn signal(number: i32, handler: extern "C" fn(i32)) -> usize;
    fn write(fd: i32, buffer: *const u8, length: usize) -> isize;
    fn _exit(code: i32) -> !;
}

/// Only async-signal-safe calls: write and _exit.
extern "C" fn terminate(_number: i32) {
    let line = b"terminating: signal received\n";
    // SAFETY: both are async-signal-safe, and the buffer is a constant of that length.
    unsafe {
        write(1, line.as_ptr(), line.len());
        _exit(0)
    }
}

fn main() {
    // SAFETY: the handler is a function that lives for ever and is async-signal-safe.
    unsafe {
        signal(SIGTERM, terminate);
        signal(SIGINT, terminate);
    }
    let port = env::var("PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(8080u16);
    let listener = match TcpListener::bind(("0.0.0.0", port)) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("cannot listen on port {port}: {error}");
            std::process::exit(1);
        }
    };
    println!("listening on port {port}");
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => accept(stream),
            Err(error) => {
                eprintln!("accept: {error}");
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

fn accept(stream: TcpStream) {
    if OPEN.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
        let _client_gone = respond(&stream, "503 Service Unavailable", "too many connections\n");
        OPEN.fetch_sub(1, Ordering::SeqCst);
        return;
    }
    thread::spawn(move || {
        if let Err(error) = serve(&stream) {
            eprintln!("connection: {error}");
        }
        OPEN.fetch_sub(1, Ordering::SeqCst);
    });
}

fn serve(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    let mut reader = BufReader::new(stream);
    let mut request = String::new();
    if reader.by_ref().take(MAX_LINE).read_line(&mut request)? == 0 {
        return Ok(());
    }
    loop {
        let mut header = String::new();
        if reader.by_ref().take(MAX_LINE).read_line(&mut header)? == 0 || header.trim().is_empty() {
            break;
        }
    }
    let request = request.trim_end();
    println!("{request}");
    if request.split(' ').nth(1) == Some("/healthz") {
        respond(stream, "200 OK", "ok\n")
    } else {
        respond(stream, "200 OK", &greeting())
    }
}

fn greeting() -> String {
    let of = |name: &str| env::var(name).unwrap_or_default();
    let pod = env::var("POD_NAME").or_else(|_| env::var("HOSTNAME")).unwrap_or_default();
    format!(
        "Hello from a Kubernetes pod that is a Mesos task.\npod:       {pod}\nnamespace: {}\nnode:      {}\ntask:      \
         {}\nagent:     {}\n",
        of("POD_NAMESPACE"),
        of("NODE_NAME"),
        of("TASK_ID"),
        of("AGENT_ID"),
    )
}

fn respond(mut stream: &TcpStream, status: &str, body: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())?;
    stream.flush()
}
