//! The blackboard, the agent process and its loop.
