// SPDX-License-Identifier: MIT-0
    // >>> your part: the exporter
    EXPECT(TEMP_FAILURE_RETRY(read(to_first, &byte, 1)) == 1, "the first importer has ended");  // both have imported
    // <<<
    // >>> your part: the first importer
    CHECK(cuMemImportFromShareableHandle(&memory, &shared, CU_MEM_HANDLE_TYPE_FABRIC));
    EXPECT(write(to_second, &shared, sizeof shared) == sizeof shared, "the second importer has ended");
    EXPECT(TEMP_FAILURE_RETRY(read(to_second, &byte, 1)) == 1, "the second importer has ended");  // it has imported
    EXPECT(write(to_exporter, &byte, 1) == 1, "the exporter has ended");
    // <<<
    // >>> your part: the second importer
    CHECK(cuMemImportFromShareableHandle(&memory, &shared, CU_MEM_HANDLE_TYPE_FABRIC));
    EXPECT(write(to_first, &byte, 1) == 1, "the first importer has ended");
    // <<<
