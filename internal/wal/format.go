package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// A record on disk: mark, length of the payload, how much of the file was known to be on the
// disk when it was written, CRC-32C of these two and the payload, payload. Numbers are
// little endian. The file begins with fileHeader.
//
// The second number tells damage from a crash: bytes that do not read were cut off, unless a later
// record says that they had been on the disk already.
const (
	fileHeader = "coordd-log-1\n"
	frameSize  = 16
	// MaxRecord bounds one record: four values of Consul's largest size in base64.
	MaxRecord = 4 << 20
)

var (
	recordMark = []byte{0xC7, 'l', 'o', 'g'}
	crcTable   = crc32.MakeTable(crc32.Castagnoli)
)

func appendFrame(b, payload []byte, synced int64) []byte {
	at := len(b)
	b = append(b, recordMark...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(payload)))
	b = binary.LittleEndian.AppendUint32(b, uint32(synced))
	b = binary.LittleEndian.AppendUint32(b, checksum(b[at+4:at+12], payload))
	return append(b, payload...)
}

func checksum(numbers, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(numbers, crcTable), crcTable, payload)
}

// frameAt reads the record at the beginning of b; n is its size on disk, 0 when there is none.
func frameAt(b []byte) (payload []byte, synced, n int) {
	if len(b) < frameSize || !bytes.Equal(b[:4], recordMark) {
		return nil, 0, 0
	}
	length := binary.LittleEndian.Uint32(b[4:8])
	if length > MaxRecord || int(length) > len(b)-frameSize {
		return nil, 0, 0
	}
	payload = b[frameSize : frameSize+int(length)]
	if checksum(b[4:12], payload) != binary.LittleEndian.Uint32(b[12:16]) {
		return nil, 0, 0
	}
	return payload, int(binary.LittleEndian.Uint32(b[8:12])), frameSize + int(length)
}

// Parse reads the contents of a log's file: its records, and how many bytes of it are good. What is
// behind them was cut off by a crash. Errors: [ErrDamaged], when they
// had been on the disk already, or when it is not a log at all. No crash leaves a part of the
// header: the file gets its name when it is on the disk.
func Parse(file []byte) (records [][]byte, good int, err error) {
	if !bytes.HasPrefix(file, []byte(fileHeader)) {
		return nil, 0, fmt.Errorf("%w: it does not begin with %q: it is none, or another version's",
			ErrDamaged, fileHeader)
	}
	good = len(fileHeader)
	for good < len(file) {
		payload, _, n := frameAt(file[good:])
		if n == 0 {
			break
		}
		records = append(records, payload)
		good += n
	}
	for rest := good + 1; rest < len(file); rest++ {
		next := bytes.Index(file[rest:], recordMark)
		if next < 0 {
			break
		}
		rest += next
		if _, synced, n := frameAt(file[rest:]); n > 0 && synced > good {
			return nil, 0,
				fmt.Errorf("%w: the record at byte %d does not read, and was on the disk when "+
					"the one at byte %d was written",
					ErrDamaged, good, rest)
		}
	}
	return records, good, nil
}
