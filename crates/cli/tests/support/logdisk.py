"""A file system with one file in it, `disk`, which is an image elsewhere; every write and flush of it is logged.

    logdisk.py IMAGE MOUNT LOG [LIES]

A loop device on top of it is a disk whose writes are known in their order, and which is gone when this process is killed.
Speaks the kernel's FUSE protocol 7.31 as far as that needs (linux/fuse.h). In the log: for each write 17 bytes (b"W", offset
and length, little-endian) and the data; for each flush the same with b"F" and zeros. The first LIES writes in which `MARK` stands
are stored with a bit behind it flipped, and told to be well. Nothing is cached above it. Writes nothing to stdout but `ready`.
"""

import ctypes
import errno
import os
import stat
import struct
import sys

MAX_WRITE = 128 << 10
MARK = b"here the disk lies"
FOPEN_DIRECT_IO = 1
ROOT, DISK = 1, 2
HEADER = struct.Struct("<IIQQIIII")
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE = 1, 2, 3, 4, 14, 15, 16
STATFS, RELEASE, FSYNC, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR = 17, 18, 20, 25, 26, 27, 28, 29
DESTROY, BATCH_FORGET = 38, 42


def main():
    image_path, mount_path, log_path = sys.argv[1:4]
    lies = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    image = os.open(image_path, os.O_RDWR)
    log = open(log_path, "wb", buffering=0)
    size = os.fstat(image).st_size
    fuse = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fuse},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    flags = 2 | 4  # MS_NOSUID, MS_NODEV
    if libc.mount(b"logdisk", mount_path.encode(), b"fuse.logdisk", flags, options.encode()) != 0:
        code = ctypes.get_errno()
        sys.exit(f"mount: {os.strerror(code)}")
    print("ready", flush=True)

    def attributes(node):
        mode, length = (stat.S_IFDIR | 0o700, 0) if node == ROOT else (stat.S_IFREG | 0o600, size)
        times = struct.pack("<QQQIII", 0, 0, 0, 0, 0, 0)
        rest = struct.pack("<IIIIIII", mode, 1, os.getuid(), os.getgid(), 0, 4096, 0)
        return struct.pack("<QQQ", node, length, (length + 511) // 512) + times + rest

    def answer(unique, error, data=b""):
        try:
            os.write(fuse, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
        except OSError as failed:
            # Interrupted meanwhile: nobody waits for it.
            if failed.errno != errno.ENOENT:
                raise

    valid = struct.pack("<QQII", 3600, 3600, 0, 0)
    while True:
        try:
            request = os.read(fuse, MAX_WRITE + (64 << 10))
        except OSError as failed:
            if failed.errno in (errno.EINTR, errno.ENOENT):
                continue
            return  # unmounted
        _, code, unique, node, *_ = HEADER.unpack_from(request)
        body = memoryview(request)[HEADER.size:]
        if code == INIT:
            answer(unique, 0, struct.pack("<IIIIHHIIHHIIIIII", 7, 31, 0, 1 << 5, 16, 12, MAX_WRITE, 1, 32, 0, *[0] * 6))
        elif code == LOOKUP:
            if bytes(body).rstrip(b"\0") == b"disk":
                answer(unique, 0, struct.pack("<QQ", DISK, 0) + valid + attributes(DISK))
            else:
                answer(unique, errno.ENOENT)
        elif code in (GETATTR, SETATTR):
            answer(unique, 0, struct.pack("<QII", 3600, 0, 0) + attributes(node))
        elif code in (OPEN, OPENDIR):
            answer(unique, 0, struct.pack("<QII", 0, FOPEN_DIRECT_IO if code == OPEN else 0, 0))
        elif code == READ:
            _, offset, length = struct.unpack_from("<QQI", body)
            answer(unique, 0, os.pread(image, length, offset))
        elif code == WRITE:
            _, offset, length = struct.unpack_from("<QQI", body)
            data = body[40:40 + length]
            log.write(b"".join((struct.pack("<cQQ", b"W", offset, length), data)))
            at = bytes(data).find(MARK) if lies else -1
            if 0 <= at and at + len(MARK) < length:
                data = bytearray(data)
                data[at + len(MARK)] ^= 1
                lies -= 1
            os.pwrite(image, data, offset)
            answer(unique, 0, struct.pack("<II", length, 0))
        elif code == FSYNC:
            log.write(struct.pack("<cQQ", b"F", 0, 0))
            answer(unique, 0)
        elif code == STATFS:
            answer(unique, 0, struct.pack("<QQQQQIIII", 1 << 20, 1 << 19, 1 << 19, 16, 8, 4096, 255, 4096, 0) + b"\0" * 24)
        elif code in (FLUSH, RELEASE, RELEASEDIR, READDIR):
            answer(unique, 0)
        elif code == DESTROY:
            answer(unique, 0)
            return
        elif code not in (FORGET, BATCH_FORGET):
            answer(unique, errno.ENOSYS)


main()
