package decide

// State is where a request is in its life.
type State uint8

// The states. A request is paused in Asking and Held, and in no other.
const (
	// Arriving: the callback with its headers runs.
	Arriving State = iota
	// Asking: it waits for answers, or for a callback that has room to let it go.
	Asking
	// Held: it is admitted, and its turn in a queue has not come.
	Held
	// Passed: it went on to the upstream.
	Passed
	// Redirected: Envoy has ended this pass, and begins another one for the same request.
	Redirected
	// Responded: the upstream's response headers have passed.
	Responded
	// Answered: it was answered, by Sluice or before Sluice saw its headers.
	Answered
	// Gone: its client left while it was Asking. It is concluded all the same.
	Gone
	// Ended: nothing about it is left to do, but replies may still come.
	Ended

	states
)

var stateNames = [states]string{
	Arriving: "arriving", Asking: "asking", Held: "held", Passed: "passed", Redirected: "redirected",
	Responded: "responded", Answered: "answered", Gone: "gone", Ended: "ended",
}

// String is the state's name.
func (s State) String() string { return stateNames[s] }

// Event is one thing that can happen to a request.
type Event uint8

// The events. The first five follow from its verdict, or from its absence.
const (
	// Waits: some check waits for Redis.
	Waits Event = iota
	// Admitted: it goes on at once.
	Admitted
	// Queued: it goes on when its turn comes.
	Queued
	// Refused: it is answered with 429 or 503.
	Refused
	// Served: it is answered with what its caller has left, at once or when its turn comes.
	Served
	// TurnComes: the time that a queue held it for is over.
	TurnComes
	// ResponseComes: response headers pass.
	ResponseComes
	// Redirects: the stream ends without a response, as Envoy redirects the request.
	Redirects
	// Returns: its next pass has come, with a stream of its own.
	Returns
	// StreamEnds: the response is complete, or the client or the upstream left, or the
	// next pass of a redirected request never comes.
	StreamEnds

	events
)

var eventNames = [events]string{
	Waits: "waits", Admitted: "admitted", Queued: "queued", Refused: "refused",
	Served: "served", TurnComes: "turn comes",
	ResponseComes: "response comes", Redirects: "redirects", Returns: "returns", StreamEnds: "stream ends",
}

// String is the event's name.
func (e Event) String() string { return eventNames[e] }

// Effect is the work in Envoy, or in the stores, that goes with a transition. Worker.step does it.
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
	// Report sends what the caller has left, in place of an upstream's response.
	Report
	// Enqueue pauses the request, if it is not yet, until its turn comes.
	Enqueue
	// GiveBack returns what it has charged: it never reached the upstream.
	GiveBack
	// ShowLimits sets the limit headers of the response.
	ShowLimits
	// Keep keeps the request for its next pass.
	Keep
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
		Waits:         {Asking, Pause},
		Admitted:      {Passed, Continue},
		Queued:        {Held, Enqueue},
		Refused:       {Answered, Answer},
		Served:        {Passed, Report},    // its response passes like an upstream's
		ResponseComes: {Answered, Nothing}, // Envoy answers an invalid request by itself
		StreamEnds:    {Ended, Nothing},
	},
	Asking: {
		Admitted:      {Passed, Resume},
		Queued:        {Held, Enqueue},
		Refused:       {Answered, Answer},
		Served:        {Passed, Report},
		ResponseComes: {Asking, Nothing}, // Envoy's own, as when its timeout is over; the end follows
		StreamEnds:    {Gone, Nothing},
	},
	Held: {
		TurnComes:     {Passed, Resume},
		Served:        {Passed, Report},
		ResponseComes: {Held, Nothing}, // Envoy's own, too
		StreamEnds:    {Ended, GiveBack},
	},
	Passed: {
		ResponseComes: {Responded, ShowLimits},
		Redirects:     {Redirected, Keep},
		StreamEnds:    {Ended, Finish},
	},
	Redirected: {
		Returns:    {Passed, Continue},
		StreamEnds: {Ended, Finish},
	},
	Responded: {
		ResponseComes: {Responded, ShowLimits}, // a local reply in place of the upstream's
		StreamEnds:    {Ended, Finish},
	},
	Answered: {
		ResponseComes: {Answered, Nothing}, // the headers of our own answer
		StreamEnds:    {Ended, Nothing},
	},
	Gone: {
		Admitted: {Ended, Finish}, // the charge stands
		Queued:   {Ended, GiveBack},
		Served:   {Ended, Finish},
		Refused:  {Ended, Nothing}, // its verdict has given everything back
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
