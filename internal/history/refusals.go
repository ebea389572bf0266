package history

import (
	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/fault"
)

// NoMessage refuses what is asked of a message that does not exist, or is somebody else's.
func NoMessage() error {
	return fault.New(fault.MessageNotFound, "There is no such message.")
}

// Busy refuses what cannot be done while a reply runs.
func Busy(messageID uuid.UUID) error {
	return &fault.Error{
		Code: fault.GenerationInProgress, Message: "A reply is being generated for this chat. Wait for its end or cancel it.",
		Details: map[string]any{"message_id": messageID},
	}
}

// invalid names each wrong field with what is wrong with it; nil when there is none.
func invalid(wrong map[string]any) error {
	if len(wrong) == 0 {
		return nil
	}
	return &fault.Error{Code: fault.ValidationFailed, Message: "Some fields are missing or out of range.", Details: wrong}
}
