package broker

// GroupType is the protocol that the members of a group speak.
type GroupType string

// Types of groups, as Kafka names them.
const (
	GroupNone     GroupType = ""         // there is no such group
	GroupClassic  GroupType = "classic"  // JoinGroup and SyncGroup
	GroupConsumer GroupType = "consumer" // KIP-848
	GroupStreams  GroupType = "streams"  // KIP-1071
)

// GroupListing is a group in the list of all.
type GroupListing struct {
	Name  string
	Type  GroupType // GroupClassic where the brokers are too old to tell
	State string
}

// MemberInfo is who is in a group.
type MemberInfo struct {
	MemberID   string
	InstanceID string // static membership; empty if none
	ClientID   string
	Host       string
}

// String names the member by client, instance id and host.
func (m MemberInfo) String() string {
	s := m.ClientID + " ("
	if m.InstanceID != "" {
		s += "instance id " + m.InstanceID + ", "
	}
	return s + m.MemberID + " at " + m.Host + ")"
}

// GroupDetail is a group with its members.
type GroupDetail struct {
	Type    GroupType
	State   string // "Dead" if there is no such group
	Members []MemberInfo
}
