//! The socket writer: the byte stream of one WebSocket. Input goes to the protocol as it arrives.
//! Output waits in one queue of whole frames: the hub's frames, and the protocol's pongs and close
//! frames. The queue is written with as few writes as possible, without copying shared frames.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::delivery::{EncodedFrame, cost};

/// Maximum number of frames in one vectored write. A smaller value causes more system calls; a
/// larger one uses more stack.
const MAX_FRAMES_PER_WRITE: usize = 64;
/// Maximum number of bytes in one read. All connections of a thread share the buffer. A smaller
/// value causes more system calls.
const READ_CHUNK_BYTES: usize = 16 * 1024;
/// Number of queued control frames from which pongs are dropped. It bounds the memory for a client
/// that sends pings and reads nothing.
const MAX_QUEUED_CONTROL_FRAMES: u16 = 16;
/// First byte of a pong: FIN bit and opcode 10 (RFC 6455, section 5.2). With another value, the
/// queue of pongs is unbounded.
const PONG: u8 = 0x8a;

thread_local! {
    static READ_BUFFER: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_CHUNK_BYTES]);
}

/// The byte stream of one WebSocket and its outgoing queue.
pub(super) struct SocketWriter<S> {
    stream: S,
    queue: VecDeque<EncodedFrame>,
    /// Bytes of the first frame that are already written.
    written_bytes: usize,
    control_frames: u16,
    /// The stream has accepted bytes that it may still hold back, as a TLS stream does.
    unflushed: bool,
    /// Bytes received since the last complete message.
    unfinished_bytes: u32,
    /// Bytes read from the stream and not yet requested by the protocol. Empty on an idle
    /// connection.
    unconsumed: Bytes,
}

/// The progress of a write.
pub(super) struct WriteProgress {
    /// Outbox cost of the hub's frames that the stream has completely accepted.
    pub cost: usize,
    pub is_all: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> SocketWriter<S> {
    /// `read` holds bytes that arrived before the protocol started.
    pub fn new(stream: S, read: Bytes) -> SocketWriter<S> {
        SocketWriter {
            stream,
            queue: VecDeque::new(),
            written_bytes: 0,
            control_frames: 0,
            unflushed: false,
            unfinished_bytes: 0,
            unconsumed: read,
        }
    }

    /// Bytes received since the last [`SocketWriter::message_ended`].
    pub fn unfinished_bytes(&self) -> usize {
        usize::try_from(self.unfinished_bytes).unwrap_or(usize::MAX)
    }

    pub fn message_ended(&mut self) {
        self.unfinished_bytes = 0;
    }

    /// The queue of whole frames, to which the caller may add more.
    pub fn queue(&mut self) -> &mut VecDeque<EncodedFrame> {
        &mut self.queue
    }

    pub fn is_writing(&self) -> bool {
        !self.queue.is_empty() || self.unflushed
    }

    /// Drops the queued frames, except one that is partly written.
    pub fn drop_queued(&mut self) {
        let is_partly_written = self.written_bytes > 0;
        self.queue.truncate(usize::from(is_partly_written));
        self.control_frames = u16::from(self.queue.front().is_some_and(|frame| !frame.is_text()));
    }

    /// Writes as much as the stream accepts.
    pub fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<WriteProgress>> {
        let mut cost = 0;
        while self.is_writing() {
            match self.write_some(cx) {
                Poll::Ready(Ok(freed)) => cost += freed,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if cost == 0 => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(WriteProgress { cost, is_all: !self.is_writing() }))
    }

    /// Writes or flushes once. Returns the outbox cost of the frames that this completed.
    fn write_some(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.queue.is_empty() {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.unflushed = false;
            return Poll::Ready(Ok(0));
        }
        let bytes = ready!(self.write_queue(cx))?;
        if bytes == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.unflushed = true;
        Poll::Ready(Ok(self.remove_written(bytes)))
    }

    fn write_queue(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let stream = Pin::new(&mut self.stream);
        if let [only] = self.queue.as_slices().0
            && self.queue.len() == 1
        {
            return stream.poll_write(cx, &only.bytes()[self.written_bytes..]);
        }
        let mut slices = [IoSlice::new(&[]); MAX_FRAMES_PER_WRITE];
        let mut count = 0;
        for (slice, frame) in slices.iter_mut().zip(&self.queue) {
            *slice =
                IoSlice::new(if count == 0 { &frame.bytes()[self.written_bytes..] } else { frame.bytes() });
            count += 1;
        }
        stream.poll_write_vectored(cx, &slices[..count])
    }

    /// Removes the written frames from the queue. Returns their outbox cost.
    fn remove_written(&mut self, bytes: usize) -> usize {
        self.written_bytes += bytes;
        let mut freed = 0;
        while let Some(first) = self.queue.front() {
            let length = first.bytes().len();
            if self.written_bytes < length {
                break;
            }
            self.written_bytes -= length;
            match first.is_text() {
                true => freed += cost(first),
                false => self.control_frames -= 1,
            }
            self.queue.pop_front();
        }
        freed
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, target: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.unconsumed.is_empty() {
            let length = target.len().min(self.unconsumed.len());
            target[..length].copy_from_slice(&self.unconsumed.split_to(length));
            if self.unconsumed.is_empty() {
                // Replace it, because even an empty slice keeps the whole allocation alive.
                self.unconsumed = Bytes::new();
            }
            return Poll::Ready(Ok(length));
        }
        READ_BUFFER.with_borrow_mut(|chunk| {
            let mut buffer = ReadBuf::new(chunk);
            ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer))?;
            let read = buffer.filled();
            let bytes = u32::try_from(read.len()).unwrap_or(u32::MAX);
            self.unfinished_bytes = self.unfinished_bytes.saturating_add(bytes);
            let (head, rest) = read.split_at(read.len().min(target.len()));
            target[..head.len()].copy_from_slice(head);
            if !rest.is_empty() {
                self.unconsumed = Bytes::copy_from_slice(rest);
            }
            Poll::Ready(Ok(head.len()))
        })
    }

    /// Synchronous I/O that fails with `WouldBlock` when pending.
    pub fn sync_io<'a, 'c, 'w>(&'a mut self, cx: &'c mut Context<'w>) -> SyncIo<'a, 'c, 'w, S> {
        SyncIo { writer: self, cx }
    }
}

/// Adapts a [`SocketWriter`] to [`io::Read`] and [`io::Write`] for one poll.
pub(super) struct SyncIo<'a, 'c, 'w, S> {
    writer: &'a mut SocketWriter<S>,
    cx: &'c mut Context<'w>,
}

fn or_would_block<T>(polled: Poll<io::Result<T>>) -> io::Result<T> {
    match polled {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> io::Read for SyncIo<'_, '_, '_, S> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        or_would_block(self.writer.poll_read(self.cx, target))
    }
}

/// The protocol writes its own frames one at a time, and they join the queue. A write never fails
/// with `WouldBlock`, because the protocol would then buffer frames without a bound.
impl<S> io::Write for SyncIo<'_, '_, '_, S> {
    fn write(&mut self, frames: &[u8]) -> io::Result<usize> {
        if self.writer.control_frames >= MAX_QUEUED_CONTROL_FRAMES && frames.first() == Some(&PONG) {
            return Ok(frames.len());
        }
        self.writer.control_frames += 1;
        self.writer.queue.push_back(EncodedFrame::of_control(frames));
        Ok(frames.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io::{Read, Write};

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn writer(kernel_bytes: usize) -> (SocketWriter<DuplexStream>, DuplexStream) {
        let (server_end, client_end) = duplex(kernel_bytes);
        (SocketWriter::new(server_end, Bytes::new()), client_end)
    }

    async fn read_all(writer: &mut SocketWriter<DuplexStream>, bite_bytes: usize, wanted: usize) -> Vec<u8> {
        let mut all = Vec::new();
        while all.len() < wanted {
            let mut target = vec![0; bite_bytes];
            let length = poll_fn(|cx| writer.poll_read(cx, &mut target)).await.unwrap();
            assert!(length > 0, "the stream ended early");
            all.extend(&target[..length]);
        }
        all
    }

    #[tokio::test]
    async fn partial_writes_send_whole_frames_in_order() {
        let (mut writer, mut client_end) = writer(7);
        let frames: Vec<EncodedFrame> =
            (0..200).map(|number| EncodedFrame::from("x".repeat(number))).collect();
        writer.queue().extend(frames.iter().cloned());
        let expected: Vec<u8> = frames.iter().flat_map(|frame| frame.bytes().to_vec()).collect();
        let wanted = expected.len();
        let reading = tokio::spawn(async move {
            let mut read = vec![0; wanted];
            client_end.read_exact(&mut read).await.unwrap();
            read
        });
        let mut freed = 0;
        while writer.is_writing() {
            freed += poll_fn(|cx| writer.poll_write(cx)).await.unwrap().cost;
        }
        assert_eq!(reading.await.unwrap(), expected);
        assert_eq!(freed, frames.iter().map(cost).sum::<usize>());
    }

    /// Accepts all bytes immediately and releases them only on a flush, as a TLS stream may.
    struct Holding {
        held: Vec<u8>,
        stream: DuplexStream,
    }

    impl AsyncRead for Holding {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            to: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_read(cx, to)
        }
    }

    impl AsyncWrite for Holding {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.held.extend(bytes);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let Holding { held, stream } = &mut *self;
            while !held.is_empty() {
                let written = ready!(Pin::new(&mut *stream).poll_write(cx, held))?;
                held.drain(..written);
            }
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.stream).poll_shutdown(cx)
        }
    }

    #[tokio::test]
    async fn buffered_stream_is_writing_until_it_is_flushed() {
        let (server_end, mut client_end) = duplex(3);
        let mut writer = SocketWriter::new(Holding { held: Vec::new(), stream: server_end }, Bytes::new());
        let frame = EncodedFrame::from("a text");
        writer.queue().push_back(frame.clone());
        let first = poll_fn(|cx| writer.poll_write(cx)).await.unwrap();
        assert_eq!((first.cost, first.is_all), (cost(&frame), false));
        assert!(writer.is_writing());
        let wanted = frame.bytes().len();
        let reading = tokio::spawn(async move {
            let mut read = vec![0; wanted];
            client_end.read_exact(&mut read).await.unwrap();
            read
        });
        assert!(poll_fn(|cx| writer.poll_write(cx)).await.unwrap().is_all);
        assert!(!writer.is_writing());
        assert_eq!(reading.await.unwrap(), frame.bytes());
    }

    #[tokio::test]
    async fn bytes_read_before_the_protocol_are_returned_first() {
        let (server_end, mut client_end) = duplex(1_000);
        let mut writer = SocketWriter::new(server_end, Bytes::from_static(b"first "));
        client_end.write_all(b"then").await.unwrap();
        assert_eq!(read_all(&mut writer, 4, 10).await, b"first then");
    }

    #[tokio::test]
    async fn large_input_is_read_completely_and_idle_reader_keeps_no_buffer() {
        let (mut writer, mut client_end) = writer(1 << 20);
        let sent: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        client_end.write_all(&sent).await.unwrap();
        assert_eq!(read_all(&mut writer, 512, sent.len()).await, sent);
        let mut target = [0; 512];
        assert!(poll_fn(|cx| Poll::Ready(writer.poll_read(cx, &mut target).is_pending())).await);
        assert!(writer.unconsumed.is_empty());
    }

    #[tokio::test]
    async fn queued_pongs_are_bounded_and_a_close_frame_is_never_dropped() {
        let (mut writer, _there) = writer(1);
        writer.queue().push_back(EncodedFrame::from("text"));
        poll_fn(|cx| {
            let _ = writer.poll_write(cx);
            for _ in 0..1_000 {
                assert_eq!(writer.sync_io(cx).write(&[PONG, 0]).unwrap(), 2);
            }
            Poll::Ready(())
        })
        .await;
        assert_eq!(writer.queue.len(), 1 + usize::from(MAX_QUEUED_CONTROL_FRAMES));
        poll_fn(|cx| Poll::Ready(writer.sync_io(cx).write(b"goodbye"))).await.unwrap();
        assert_eq!(
            writer.queue.len(),
            2 + usize::from(MAX_QUEUED_CONTROL_FRAMES),
            "a close frame is never dropped"
        );
        writer.drop_queued();
        assert_eq!(
            (writer.queue.len(), writer.control_frames),
            (1, 0),
            "a partly written frame is completed"
        );
    }

    #[tokio::test]
    async fn read_without_input_would_block() {
        let (mut writer, _there) = writer(1);
        let read = poll_fn(|cx| Poll::Ready(writer.sync_io(cx).read(&mut [0; 8]))).await;
        assert_eq!(read.unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
