SELECT until FROM listening
