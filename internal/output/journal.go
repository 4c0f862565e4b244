//go:build unix

package output

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"
)

// Priorities of syslog.
const (
	priorityErr     = '3'
	priorityWarning = '4'
	priorityInfo    = '6'
)

// journal sends lines to journald by its native protocol: a datagram for each. It is not
// github.com/coreos/go-systemd, whose socket is not connected: then a journal that takes nothing
// for a while is never seen to take something again, and lines are lost.
type journal struct {
	turns
	socket string
	conn   *net.UnixConn // guarded by the one turn; nil: none
}

// CheckJournal reports whether a journal listens there. The error says what to do.
func CheckJournal(socket string) error {
	j := &journal{socket: socket}
	if err := j.dial(); err != nil {
		return fmt.Errorf("no journal takes messages here: %w: give another --output", err)
	}
	return j.conn.Close()
}

func (j *journal) dial() (err error) {
	j.conn, err = net.DialUnix("unixgram", nil, &net.UnixAddr{Name: j.socket, Net: "unixgram"})
	return err
}

func (j *journal) line(t *turn, s *source, text []byte, _ bool) {
	t.out = message(t.out[:0], s, text)
	if err := j.send(t.out); err != nil {
		t.fail(1, err)
	}
	t.out = t.out[:0]
}

func (j *journal) flush(*turn, *source) {}

// send tries once more with a new connection: another journal may listen there by now.
func (j *journal) send(datagram []byte) error {
	if j.conn != nil {
		_, err := j.conn.Write(datagram)
		if err == nil || errors.Is(err, unix.EMSGSIZE) {
			return err
		}
		_ = j.conn.Close()
		j.conn = nil
	}
	if err := j.dial(); err != nil {
		j.conn = nil
		return err
	}
	_, err := j.conn.Write(datagram)
	return err
}

// message is a line in journald's format: with the variables of the command as fields. The text
// goes with its length, so that it may hold any bytes.
func message(to []byte, s *source, text []byte) []byte {
	priority := priorityInfo
	switch {
	case s.note:
		priority = priorityWarning
	case s.stream == 2:
		priority = priorityErr
	}
	to = append(to, "MESSAGE\n"...)
	to = binary.LittleEndian.AppendUint64(to, uint64(len(text)))
	to = append(append(to, text...), '\n')
	// The item's id holds no control character.
	to = fmt.Appendf(to, "PRIORITY=%c\nSYSLOG_IDENTIFIER=coordd/%s\nCOORDD_STREAM=%s\n", priority,
		s.item, streamNames[s.stream])
	for _, kv := range s.env {
		if strings.HasPrefix(kv, "COORDD_") && !strings.ContainsRune(kv, '\n') {
			to = append(append(to, kv...), '\n')
		}
	}
	return to
}
