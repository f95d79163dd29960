// SPDX-License-Identifier: MIT-0
    // >>> your part: send the handle, and keep the memory as long as needed
    EXPECT(write(socket, &shared, sizeof shared) == sizeof shared, "the importer has ended");
    EXPECT(TEMP_FAILURE_RETRY(read(socket, &byte, 1)) == 1, "the importer has ended");  // it has imported
    // <<<
    // >>> your part: say that the import is done
    EXPECT(write(socket, &byte, 1) == 1, "the exporter has ended");
    // <<<
