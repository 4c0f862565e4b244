package messages_test

import (
	"context"
	"fmt"

	"github.com/coordd/coordd/messages"
)

// A subscriber sees the newest value first, and may miss those in between.
func ExampleState() {
	temperature := messages.NewState(18)
	temperature.Set(19)
	cursor := temperature.Subscribe()
	now, _ := cursor.Next(context.Background())
	fmt.Println("at first", now)

	temperature.Set(20)
	temperature.Set(21)
	now, _ = cursor.Next(context.Background())
	fmt.Println("then", now)
	// Output:
	// at first 19
	// then 21
}

// A request is answered by the receiver, and the caller waits for that.
func ExampleMailbox() {
	double := messages.NewMailbox[int, int]()
	done := make(chan struct{})
	go func() { // the receiver: an actor's select loop
		defer close(done)
		inbox := double.Open()
		defer inbox.Close()
		request := <-inbox.Requests()
		request.Handle(func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	}()
	fmt.Println(double.Call(context.Background(), 21))
	<-done
	// Output: 42 <nil>
}
