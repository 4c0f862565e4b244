package configstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coordd/coordd/actors/configstore"
)

func TestNobodyWaitsForAStoreWhoseContextHasEndedBeforeItBegan(t *testing.T) {
	run(t, func(t *testing.T, r *rig) {
		s := r.prepare()
		told := make(chan error, 1)
		go func() {
			_, err := s.Put(context.Background(), "k", []byte("1"))
			told <- err
		}()
		time.Sleep(time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s.cancel = func() {} // it is over by then
		s.err = s.Run(ctx)
		close(s.done)
		select {
		case err := <-told:
			if !errors.Is(err, configstore.ErrStopped) {
				t.Error(err)
			}
		case <-time.After(time.Hour):
			t.Error("a call waits for a store that has ended")
			s.Close() // so that the bubble can end
		}
	})
}
