package decide

// State is where a request is in its life.
type State uint8

// The states. A request is paused in Asking and Held, and in no other.
const (
	// Arriving: the callback with its headers runs.
	Arriving State = iota
	// Asking: it waits for answers, or for a callback that has room to conclude it.
	Asking
	// Held: it is admitted, and its turn in a queue has not come.
	Held
	// Passed: it went on to the upstream.
	Passed
	// Answered: Sluice answered it.
	Answered
	// Gone: its client left while it was Asking. It is concluded all the same.
	Gone
	// Ended: nothing about it is left to do, but replies may still come.
	Ended

	states
)

var stateNames = [states]string{
	Arriving: "arriving", Asking: "asking", Held: "held", Passed: "passed",
	Answered: "answered", Gone: "gone", Ended: "ended",
}

// String is the state's name.
func (s State) String() string { return stateNames[s] }

// Event is what can happen to a request.
type Event uint8

// The events. The first four follow from its verdict, or from its absence.
const (
	// Waits: some check waits for Redis.
	Waits Event = iota
	// Admitted: it goes on at once.
	Admitted
	// Queued: it goes on when its turn comes.
	Queued
	// Refused: it is answered with 429 or 503.
	Refused
	// TurnComes: the time that a queue held it for is over.
	TurnComes
	// ResponseComes: response headers pass.
	ResponseComes
	// StreamEnds: the response is complete, or the client or the upstream left.
	StreamEnds
	// ConfigurationEnds: its last stream has ended, and what is left is settled or
	// lost. Envoy keeps a configuration while one of its streams lives.
	ConfigurationEnds

	events
)

var eventNames = [events]string{
	Waits: "waits", Admitted: "admitted", Queued: "queued", Refused: "refused", TurnComes: "turn comes",
	ResponseComes: "response comes", StreamEnds: "stream ends", ConfigurationEnds: "configuration ends",
}

// String is the event's name.
func (e Event) String() string { return eventNames[e] }

// Effect is what has to be done in Envoy, or in the stores, when a request goes
// from one state to the next.
type Effect uint8

// The effects.
const (
	// Nothing has to be done.
	Nothing Effect = iota
	// Continue lets the request go on from the callback that runs.
	Continue
	// Pause keeps the request back, from the callback that runs.
	Pause
	// Resume lets a paused request go on.
	Resume
	// Answer sends the local response.
	Answer
	// Enqueue pauses the request, if it is not yet, until its turn comes.
	Enqueue
	// GiveBack returns what it has charged: it never reached the upstream.
	GiveBack
	// ShowLimits sets the limit headers of the response.
	ShowLimits
	// Finish ends what an admitted request holds in the stores until it is over, see
	// Stores.Finish.
	Finish
	// Impossible marks what Envoy never does. The state stays.
	Impossible
)

// transition is where an event leads, and what has to be done on the way.
type transition struct {
	next   State
	effect Effect
}

// transitions is the whole life of a request. A pair that is not listed is
// Impossible, and nothing happens.
var transitions = [states][events]transition{
	Arriving: {
		Waits:    {Asking, Pause},
		Admitted: {Passed, Continue},
		Queued:   {Held, Enqueue},
		Refused:  {Answered, Answer},
	},
	Asking: {
		Admitted:   {Passed, Resume},
		Queued:     {Held, Enqueue},
		Refused:    {Answered, Answer},
		StreamEnds: {Gone, Nothing},
	},
	Held: {
		TurnComes:  {Passed, Resume},
		StreamEnds: {Ended, GiveBack},
	},
	Passed: {
		ResponseComes: {Passed, ShowLimits},
		StreamEnds:    {Ended, Finish},
	},
	Answered: {
		ResponseComes: {Answered, Nothing}, // the headers of our own answer
		StreamEnds:    {Ended, Nothing},
	},
	Gone: {
		Admitted:          {Ended, Finish}, // the charge stands
		Queued:            {Ended, GiveBack},
		Refused:           {Ended, Nothing}, // its verdict has given everything back
		ConfigurationEnds: {Ended, GiveBack},
	},
	Ended: {},
}

// Step takes the request to its next state, and says what has to be done.
func (q *Question) Step(e Event) Effect {
	t := transitions[q.state][e]
	if t == (transition{}) {
		return Impossible
	}
	q.state = t.next
	return t.effect
}
