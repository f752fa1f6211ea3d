//! Streams a log file, to its end or for as long as its container runs.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use km_runtime::{ContainerState, Runtime};
use tokio::{
    fs::File,
    io::{AsyncBufReadExt, AsyncSeekExt, BufReader, SeekFrom},
    sync::mpsc,
};

use super::select::{Options, Printer, Tail};

/// A follower looks for more this often; only while somebody follows.
const POLL: Duration = Duration::from_millis(100);
/// Chunks that may wait for a slow reader.
const BUFFER: usize = 16;
/// Text is sent in chunks of about this many bytes.
const CHUNK: usize = 32 << 10;

/// Opens the log and streams what is asked for. `id` is the container whose end ends the following.
pub async fn stream(file: PathBuf, options: Options, runtime: Arc<dyn Runtime>, id: String) -> io::Result<Body> {
    let mut reader = match File::open(&file).await {
        Ok(file) => BufReader::new(file),
        // It has written nothing yet, or what it wrote was not kept.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !options.follow => return Ok(Body::empty()),
        Err(error) => return Err(error),
    };
    if let Some(lines) = options.tail_lines {
        let start = tail_start(&mut reader, lines).await?;
        reader.seek(SeekFrom::Start(start)).await?;
    }
    let (sender, mut receiver) = mpsc::channel::<io::Result<Bytes>>(BUFFER);
    tokio::spawn(async move {
        if let Err(error) = copy(reader, options, &*runtime, &id, &sender).await
            && sender.send(Err(error)).await.is_err()
        {
            tracing::debug!("the reader of a log is gone");
        }
    });
    let stream = futures::stream::poll_fn(move |context| receiver.poll_recv(context));
    Ok(Body::from_stream(stream))
}

async fn tail_start(reader: &mut BufReader<File>, lines: usize) -> io::Result<u64> {
    let mut tail = Tail::new(lines);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).await? > 0 {
        tail.push(&line);
        line.clear();
    }
    Ok(tail.start())
}

async fn copy(
    mut reader: BufReader<File>,
    options: Options,
    runtime: &dyn Runtime,
    id: &str,
    sender: &mpsc::Sender<io::Result<Bytes>>,
) -> io::Result<()> {
    let follow = options.follow;
    let mut printer = Printer::new(options);
    let mut line = Vec::new();
    let mut chunk = Vec::new();
    loop {
        // Asked before the last read: what was written before the end is not missed.
        let over = !follow || has_ended(runtime, id).await;
        loop {
            let read = reader.read_until(b'\n', &mut line).await?;
            if line.last() == Some(&b'\n') {
                line.pop();
                chunk.extend(printer.print(&line));
                line.clear();
            }
            let at_end = read == 0;
            if at_end && over && !line.is_empty() {
                chunk.extend(printer.print(&line));
                line.clear();
            }
            if !chunk.is_empty() && (chunk.len() >= CHUNK || at_end || printer.is_full()) {
                let full = Bytes::from(std::mem::take(&mut chunk));
                if sender.send(Ok(full)).await.is_err() {
                    return Ok(());
                }
            }
            if printer.is_full() {
                return Ok(());
            }
            if at_end {
                break;
            }
        }
        if over {
            return Ok(());
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = sender.closed() => return Ok(()),
        }
    }
}

async fn has_ended(runtime: &dyn Runtime, id: &str) -> bool {
    !matches!(runtime.container_status(id).await, Ok(status) if status.state != ContainerState::Exited)
}
