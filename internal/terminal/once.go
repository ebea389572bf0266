package terminal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/streaming"
)

const (
	// maxPiped is the longest message in bytes: the API's limit in characters of 4 bytes.
	maxPiped = 4 * 32_000
	// stopTimeout bounds the request that stops a reply after an interrupt.
	stopTimeout = 5 * time.Second
)

// Once sends message, whose ChatID and ModelVariant may be set, with the whole of in as its content, and prints the
// reply and nothing else. clean is for output to a terminal: see Cleaner. When ctx ends, the reply is stopped.
func Once(ctx context.Context, c *client.Client, message client.Message, in io.Reader, out io.Writer, clean bool) error {
	content, err := io.ReadAll(io.LimitReader(in, maxPiped+1))
	if err != nil {
		return fmt.Errorf("read the message: %w", err)
	}
	if len(content) > maxPiped {
		return errors.New("the input is longer than a message may be")
	}
	message.Content = string(content)
	var cleaner Cleaner
	var written error
	say := func(piece string) {
		if clean {
			piece = cleaner.Clean(piece)
		}
		_, err := io.WriteString(out, piece)
		written = errors.Join(written, err)
	}
	reply, err := c.Send(ctx, message, client.Listener{Text: say})
	if ctx.Err() != nil && reply.Started.ChatID != uuid.Nil {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		return errors.Join(errors.New("stopped"), c.Cancel(stopping, reply.Started.ChatID))
	}
	if err != nil {
		return err
	}
	say("\n")
	return errors.Join(written, failure(reply.End))
}

func failure(end streaming.Terminal) error {
	switch {
	case end.Cancelled != nil:
		return errors.New("the reply was stopped")
	case end.Failed != nil:
		return fmt.Errorf("the reply broke off: %s", OneLine(end.Failed.Message))
	}
	return nil
}
